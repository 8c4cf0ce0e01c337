//! Is a list of configurations really a product, written out? Programs make such lists with nested loops; as axes they cost next to
//! nothing to send, to keep and to compare. Numbers stay what they are: the order has to be that of the loops.

use crate::queue::render::text::json;
use crate::queue::sweep::{Dimension, Value};
use std::collections::HashSet;

/// The same rows as a product, or as they are.
pub fn factor(names: Vec<String>, rows: Vec<Vec<Option<Value>>>) -> Vec<Dimension> {
    product(&names, &rows).unwrap_or_else(|| vec![Dimension { names, rows }])
}

fn product(names: &[String], rows: &[Vec<Option<Value>>]) -> Option<Vec<Dimension>> {
    if rows.iter().flatten().any(Option::is_none) {
        return None;
    }
    // What turns together first turns in the same row; the slowest is the one that stays longest.
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for column in 0..names.len() {
        let turns = rows.iter().position(|row| row[column] != rows[0][column])?;
        match groups.iter_mut().find(|(first, _)| *first == turns) {
            Some((_, columns)) => columns.push(column),
            None => groups.push((turns, vec![column])),
        }
    }
    if groups.len() < 2 {
        return None;
    }
    groups.sort_by(|(a, _), (b, _)| b.cmp(a));
    let mut dimensions = Vec::new();
    let mut stride = rows.len();
    for (turns, columns) in groups {
        // Each stays for `turns` rows; all that it takes in turn come within the stride of the one before.
        let count = stride.checked_div(turns).filter(|count| *count > 1 && count * turns == stride)?;
        let taken: Vec<Vec<Option<Value>>> = (0..count)
            .map(|index| columns.iter().map(|column| rows[index * turns][*column].clone()).collect())
            .collect();
        let key = |row: &Vec<Option<Value>>| row.iter().map(|value| value.as_ref().map(json)).collect::<Vec<_>>();
        let different: HashSet<Vec<Option<String>>> = taken.iter().map(key).collect();
        let turns_as_it_should = |(at, row): (usize, &Vec<Option<Value>>)| {
            let expected = &taken[at / turns % count];
            columns.iter().zip(expected).all(|(column, value)| row[*column] == *value)
        };
        if different.len() < count || !rows.iter().enumerate().all(turns_as_it_should) {
            return None;
        }
        dimensions
            .push(Dimension { names: columns.iter().map(|column| names[*column].clone()).collect(), rows: taken });
        stride = turns;
    }
    (stride == 1).then_some(dimensions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::cells;
    use crate::queue::sweep::{Axes, Config};
    use proptest::prelude::*;

    fn factored(rows: &[&[i64]]) -> Vec<(String, usize)> {
        let names = (0..rows[0].len()).map(|column| char::from(b'a' + column as u8).to_string()).collect();
        let rows = rows.iter().map(|row| row.iter().map(|value| Some(Value::Int(*value))).collect()).collect();
        factor(names, rows).into_iter().map(|dimension| (dimension.names.concat(), dimension.rows.len())).collect()
    }

    fn shape(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
        expected.iter().map(|(names, count)| ((*names).into(), *count)).collect()
    }

    #[test]
    fn loops_are_recognised() {
        assert_eq!(factored(&[&[1, 5], &[1, 6], &[2, 5], &[2, 6]]), shape(&[("a", 2), ("b", 2)]));
        assert_eq!(
            factored(&[&[1, 5], &[2, 5], &[1, 6], &[2, 6]]),
            shape(&[("b", 2), ("a", 2)]),
            "by what turns slowest"
        );
        assert_eq!(factored(&[&[1, 5, 7], &[1, 6, 8], &[2, 5, 7], &[2, 6, 8]]), shape(&[("a", 2), ("bc", 2)]));
        for rows in [
            &[&[1, 5][..], &[2, 6]][..],
            &[&[1, 5], &[1, 6], &[2, 5]],
            &[&[1, 5], &[1, 6], &[2, 6], &[2, 5]],
            &[&[1, 5], &[1, 6], &[2, 5], &[2, 7]],
            &[&[1, 5], &[1, 6], &[1, 7], &[2, 5]],
        ] {
            assert_eq!(factored(rows).len(), 1, "{rows:?}");
        }
    }

    proptest! {
        #[test]
        fn every_configuration_keeps_its_number(lengths in proptest::collection::vec(1usize..4, 1..4), swap in any::<(u8, u8)>(), shuffled in any::<bool>()) {
            let count: usize = lengths.iter().product();
            let mut rows: Vec<Vec<Option<Value>>> = (0..count)
                .map(|row| {
                    let mut rest = row;
                    lengths.iter().rev().map(|length| { let index = rest % length; rest /= length; Some(Value::Int(index as i64)) }).collect()
                })
                .collect();
            if shuffled {
                rows.swap(usize::from(swap.0) % count, usize::from(swap.1) % count);
            }
            let names: Vec<String> = (0..lengths.len()).map(|column| format!("p{column}")).collect();
            let axes = Axes { fixed: Config::new(), dimensions: factor(names.clone(), rows.clone()), only: None };
            prop_assert_eq!(cells::count(&axes), count as u64);
            let sweep = crate::queue::read::tests::as_sweep_of(vec![axes]);
            for (cell, row) in rows.into_iter().enumerate() {
                let expected: Config = names.iter().cloned().zip(row.into_iter().flatten()).collect();
                prop_assert_eq!(cells::config(&sweep, cell as u32), Some(expected));
            }
        }
    }
}
