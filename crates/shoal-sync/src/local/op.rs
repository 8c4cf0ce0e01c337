//! What a rank can ask for, how it is written into a cell, and how it is cut into chunks. Pure.

use crate::dtype::DType;

/// What becomes of the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    Sum,
    /// Divided by the number of ranks that contributed.
    Mean,
    /// Each part times its rank's weight, divided by the sum of the weights of those who contributed.
    WeightedMean {
        weight: f64,
    },
    /// Each part times its rank's weight.
    WeightedSum {
        weight: f64,
    },
}

/// The operation and the memory it works on, which belongs to the caller.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Replaces the tensor by the sum over all ranks.
    Reduce { dtype: DType, scale: Scale, addr: *mut u8, bytes: usize },
    /// The same, but only the first of the ranks that contribute gets it; the others' tensors stay as they are.
    Collect { dtype: DType, scale: Scale, addr: *mut u8, bytes: usize },
    /// Replaces the tensor by that of the root (a global rank).
    Broadcast { root: u32, addr: *mut u8, bytes: usize },
    /// `out` has room for `bytes` of every member, in the order of the member list; the places of
    /// ranks that have finished are left as they are. `part` may be this rank's own place in `out`.
    AllGather { part: *const u8, bytes: usize, out: *mut u8 },
    /// Ends when everybody has come.
    Barrier,
}

/// One operation of one rank; all ranks must bring the same fingerprint, length and operation.
#[derive(Debug, Clone, Copy)]
pub struct LocalOp {
    /// The caller's hash of whatever must agree: name, dtype, shape.
    pub fingerprint: u64,
    pub action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Reduce(DType, How),
    Collect(DType, How),
    Broadcast { root: u8 },
    AllGather,
    Barrier,
}

/// [`Scale`] without its weight, which may differ between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Sum,
    Mean,
    WeightedMean,
    WeightedSum,
}

const STAGED: u64 = 1 << 32;

impl Kind {
    /// `staged`: the data travels through the arena.
    pub fn code(self, staged: bool) -> u64 {
        let (kind, dtype, rest) = match self {
            Kind::Reduce(dtype, how) => (1, dtype.code(), how as u8),
            Kind::Broadcast { root } => (2, 0, root),
            Kind::AllGather => (3, 0, 0),
            Kind::Barrier => (4, 0, 0),
            Kind::Collect(dtype, how) => (5, dtype.code(), how as u8),
        };
        u64::from(u32::from_le_bytes([kind, dtype, rest, 0])) | if staged { STAGED } else { 0 }
    }

    /// None if another rank wrote nonsense.
    pub fn parse(code: u64) -> Option<(Kind, bool)> {
        let [kind, dtype, rest, 0] = (code as u32).to_le_bytes() else { return None };
        let how = || [How::Sum, How::Mean, How::WeightedMean, How::WeightedSum].get(usize::from(rest)).copied();
        let kind = match kind {
            1 => Kind::Reduce(DType::from_code(dtype)?, how()?),
            5 => Kind::Collect(DType::from_code(dtype)?, how()?),
            2 => Kind::Broadcast { root: rest },
            3 => Kind::AllGather,
            4 => Kind::Barrier,
            _ => return None,
        };
        Some((kind, code & STAGED != 0))
    }

    /// Into how many chunks the work is cut. What is staged and only copied, each rank fetches for itself.
    pub fn chunks(self, staged: bool, bytes: usize, chunk: usize, contributors: u32) -> u32 {
        let pieces = bytes.div_ceil(chunk) as u32;
        match self {
            Kind::Barrier => 0,
            Kind::Reduce(..) | Kind::Collect(..) => pieces,
            _ if staged => 0,
            Kind::Broadcast { .. } => pieces,
            Kind::AllGather => pieces * contributors,
        }
    }
}

/// How long a chunk should be.
///
/// The parts of all other ranks should stay in a core's share of the cache while they are summed; that bounds it from
/// above. Every chunk costs a system call a rank and direction, about a microsecond each; that bounds it from below.
/// In between, a tensor should give every core a few, so that none waits long for the last. Measured with four ranks
/// on two cores: 64 KiB is a fifth slower than 128, 256 a little faster, 512 no better.
pub(super) fn chunk_bytes(bytes: usize, members: usize, cpus: usize, direct: bool) -> usize {
    const SMALLEST: usize = 32 << 10;
    let others = members.saturating_sub(1).max(1);
    let largest = if direct { 128 << 10 } else { ((768 << 10) / others).clamp(SMALLEST, 256 << 10) };
    (bytes / (4 * cpus.max(1))).clamp(SMALLEST, largest).next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        let mut all = vec![Kind::Broadcast { root: 31 }, Kind::AllGather, Kind::Barrier];
        for dtype in DType::ALL {
            let hows = [How::Sum, How::Mean, How::WeightedMean, How::WeightedSum];
            all.extend(hows.map(|how| Kind::Reduce(dtype, how)));
            all.extend(hows.map(|how| Kind::Collect(dtype, how)));
        }
        for kind in all {
            for staged in [false, true] {
                assert_eq!(Kind::parse(kind.code(staged)), Some((kind, staged)));
            }
        }
        assert_eq!(Kind::parse(0), None);
        assert_eq!(Kind::parse(u64::MAX), None);
    }

    #[test]
    fn chunks_cover_all_bytes() {
        let sum = Kind::Reduce(DType::F32, How::Sum);
        assert_eq!(sum.chunks(false, 0, 4096, 4), 0);
        assert_eq!(sum.chunks(false, 4097, 4096, 4), 2);
        assert_eq!(sum.chunks(true, 4097, 4096, 4), 2);
        assert_eq!(Kind::AllGather.chunks(false, 4097, 4096, 3), 6);
        assert_eq!(Kind::AllGather.chunks(true, 4097, 4096, 3), 0);
        for members in 1..=32 {
            let chunk = chunk_bytes(64 << 20, members, 2, false);
            assert!((32 << 10..=256 << 10).contains(&chunk) && chunk.is_multiple_of(4096), "{members}: {chunk}");
        }
    }
}
