//! Who moves next: by chance, or as a search over all orders says.

use super::dice::Dice;

pub enum Chooser {
    Random(Dice),
    /// Follows `script`, then always takes the first choice; notes how many there were at each point.
    Scripted {
        script: Vec<usize>,
        widths: Vec<usize>,
    },
}

impl Chooser {
    pub fn random(seed: u64) -> Chooser {
        Chooser::Random(Dice::new(seed ^ 0x5c4e_d01e))
    }

    pub fn scripted(script: Vec<usize>) -> Chooser {
        Chooser::Scripted { script, widths: Vec::new() }
    }

    pub fn pick(&mut self, n: usize) -> usize {
        match self {
            Chooser::Random(dice) => dice.below(n),
            Chooser::Scripted { script, widths } => {
                let choice = script.get(widths.len()).copied().unwrap_or(0);
                widths.push(n);
                choice
            }
        }
    }

    /// Chance that is no part of a search.
    pub fn luck(&mut self, n: usize) -> usize {
        match self {
            Chooser::Random(dice) => dice.below(n),
            Chooser::Scripted { .. } => 0,
        }
    }
}

/// The next script of a depth-first search over all choices; `None` when all were tried.
pub fn next_script(script: Vec<usize>, widths: &[usize]) -> Option<Vec<usize>> {
    let mut path: Vec<usize> = (0..widths.len()).map(|i| script.get(i).copied().unwrap_or(0)).collect();
    while let Some(last) = path.pop() {
        if last + 1 < widths[path.len()] {
            path.push(last + 1);
            return Some(path);
        }
    }
    None
}
