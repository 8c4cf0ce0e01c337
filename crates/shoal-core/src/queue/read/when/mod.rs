//! Which configurations does a condition leave? `width > 64 or lr < 0.05`: a small language over parameters, without calls, without
//! loops, and with an end.
//!
//! | file | question |
//! |---|---|
//! | `lex` | which words and signs a text is made of |
//! | `parse` | what they mean together |
//! | `eval` | what that is for one configuration |

pub mod eval;
mod lex;
pub mod parse;

pub use parse::{Condition, parse};

/// What is wrong with a condition, and at which of its characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub at: usize,
    pub width: usize,
    pub why: String,
}

#[cfg(test)]
mod tests;
