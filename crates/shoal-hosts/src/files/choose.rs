//! Which way do the bytes take to each node (pure)?

/// Less than this is sent over the line that is open anyway: to start rsync takes longer.
pub const LITTLE: u64 = 1 << 20;
/// From here on it pays that nodes pass bytes on to each other.
pub const MUCH: u64 = 4 << 20;

/// What a node lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Of these, bytes of files that are there in another state: rsync sends the difference.
    pub stale: u64,
    /// Both ends have it.
    pub rsync: bool,
    /// It waits for a neighbour's call.
    pub listens: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It has all.
    Nothing,
    Rsync,
    /// From here, over the open line.
    Stream,
    /// From a neighbour, which has it from here or from another one.
    Relay,
}

/// Rsync where differences are worth it; a chain where several nodes need much, because this machine's uplink should carry it once;
/// else each node by itself.
pub fn choose(needs: &[Need]) -> Vec<How> {
    let differs = |need: &Need| need.rsync && need.stale >= LITTLE && need.stale * 2 >= need.bytes;
    let chained = |need: &Need| need.listens && need.bytes >= MUCH && !differs(need);
    let chain = needs.iter().filter(|need| chained(need)).count() > 1;
    let one = |need: &Need| match need {
        Need { files: 0, .. } => How::Nothing,
        need if differs(need) => How::Rsync,
        need if chain && chained(need) => How::Relay,
        need if need.rsync && need.bytes >= LITTLE => How::Rsync,
        _ => How::Stream,
    };
    needs.iter().map(one).collect()
}

/// How long each of a chain may find its next one deaf before it goes on without it: the last to notice is the first of the
/// chain, so that of all who are held up only the neighbour of the cause gives up.
pub fn patience_ms(position: usize, length: usize) -> u64 {
    let behind = length.saturating_sub(position + 1) as u64;
    (5_000 + behind * 1_500).min(30_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Need = Need { files: 1, bytes: 200 << 20, stale: 0, rsync: true, listens: true };

    #[test]
    fn the_way_follows_what_is_needed() {
        use How::{Nothing, Relay, Rsync, Stream};
        let small = Need { bytes: 10, ..NODE };
        let bare = Need { rsync: false, ..NODE };
        let deaf = Need { listens: false, ..NODE };
        let stale = Need { stale: 200 << 20, ..NODE };
        let none = Need { files: 0, bytes: 0, ..NODE };
        for (needs, ways) in [
            (vec![NODE], vec![Rsync]),
            (vec![bare], vec![Stream]),
            (vec![small], vec![Stream]),
            (vec![none, NODE], vec![Nothing, Rsync]),
            (vec![NODE, NODE], vec![Relay, Relay]),
            (vec![NODE, bare, small, none], vec![Relay, Relay, Stream, Nothing]),
            (vec![NODE, stale, NODE], vec![Relay, Rsync, Relay]),
            (vec![NODE, deaf], vec![Rsync, Rsync]),
            (vec![], vec![]),
        ] {
            assert_eq!(choose(&needs), ways, "{needs:?}");
        }
    }

    #[test]
    fn whoever_is_nearer_to_the_end_gives_up_first() {
        let all: Vec<u64> = (0..8).map(|i| patience_ms(i, 8)).collect();
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
        assert!(patience_ms(0, 1000) <= 30_000);
    }
}
