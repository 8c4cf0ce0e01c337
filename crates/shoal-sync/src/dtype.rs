//! Element types a tensor may have, and the type its sum is kept in.

use serde::{Deserialize, Serialize};

/// What one element of a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    F32,
    F64,
    Bf16,
    F16,
}

impl DType {
    pub const ALL: [DType; 4] = [DType::F32, DType::F64, DType::Bf16, DType::F16];

    /// Bytes of one element on the wire and in the user's memory.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F64 => 8,
            DType::Bf16 | DType::F16 => 2,
        }
    }

    /// Bytes of one element of its running sum: halves are summed in f32, so that
    /// only one rounding separates the result from the exact mean.
    pub const fn accumulator_size(self) -> usize {
        match self {
            DType::F32 | DType::Bf16 | DType::F16 => 4,
            DType::F64 => 8,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
        }
    }

    pub const fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: u8) -> Option<DType> {
        DType::ALL.get(usize::from(code)).copied()
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_strangers_are_refused() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
        }
        assert_eq!(DType::from_code(4), None);
        assert_eq!(DType::from_code(255), None);
    }
}
