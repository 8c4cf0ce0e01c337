//! How are the runs of a launch shown?

use shoal_core::kubernetes::rows::Row;

/// One line a run.
pub fn of(rows: &[Row]) -> String {
    let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let head = ["RUN", "SEED", "NODE", "GPU", "STATE", "POD", "SAVES TO"].map(String::from);
    let lines = rows.iter().map(|row| {
        let state = row.state.word().to_string();
        [
            row.object.clone(),
            dash(&row.seed),
            dash(&row.node),
            dash(&row.gpu),
            state,
            dash(&row.pod),
            dash(&row.save_path),
        ]
    });
    let lines: Vec<[String; 7]> = std::iter::once(head).chain(lines).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..7).map(width).collect();
    let line = |cells: &[String; 7]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::kubernetes::state::State;
    use shoal_core::kubernetes::template::Kind;

    #[test]
    fn columns_are_as_wide_as_they_must() {
        let row = Row {
            object: "w-a-s0".into(),
            kind: Kind::Job,
            seed: Some("0".into()),
            node: None,
            gpu: Some("3".into()),
            save_path: Some("/mnt/a".into()),
            pod: None,
            state: State::Running,
            why: None,
        };
        let wanted = "RUN     SEED  NODE  GPU  STATE    POD  SAVES TO\nw-a-s0  0     -     3    running  -    /mnt/a\n";
        assert_eq!(of(&[row]), wanted);
    }
}
