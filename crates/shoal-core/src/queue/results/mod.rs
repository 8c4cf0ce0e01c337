//! What came out of a sweep, and how far is it?
//!
//! | file | question |
//! |---|---|
//! | `numbers` | the mean of some numbers, how sure it is, and how both are written |
//! | `gather` | which parameters differ, which metrics there are, which runs belong together |
//! | `table` | rows and columns, as chosen and sorted |
//! | `text` | that table in a terminal, however narrow |
//! | `export` | as CSV and as JSON |
//! | `plot/` | a metric against a parameter, as a picture |
//! | `progress` | one line for those who wait |

pub mod export;
pub mod gather;
pub mod numbers;
pub mod plot;
pub mod progress;
pub mod table;
pub mod text;

pub use progress::progress;
pub use table::{Cell, Choice, Column, Kind, Table, table};

#[cfg(test)]
mod tests;
