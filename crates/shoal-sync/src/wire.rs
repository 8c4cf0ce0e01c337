//! One frame's header: fixed, self-describing, checked before a byte of the payload is looked at (CORE-1: pure).

use crate::dtype::DType;
use crate::layout::CHUNK;
use thiserror::Error;

/// Changes whenever a frame or the handshake changes its meaning.
pub const PROTOCOL_VERSION: u8 = 3;
pub const HEADER: usize = 64;
const MAGIC: u16 = 0x5348;

/// Largest payload of a frame that carries words instead of tensor bytes.
pub const MAX_WORDS: usize = 16 * 1024;

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Worker to shard: my part of a chunk.
    Push,
    /// Shard to worker: the chunk, summed (or, without payload, "I have your chunk").
    Result,
    /// Worker to shard: my memory for this key is in place.
    Ready,
    /// Shard to worker: everybody is ready; send this key's blocks now, in the order of these words.
    Go,
    /// Worker to the key's checker: name, type and shape in full, once a key.
    Spec,
    /// Worker to shard: I am done, go on without me.
    Finish,
    /// Anyone to anyone: the run is over, and who is to blame.
    Abort,
    /// Shard to worker: whom your key waits for.
    Waiting,
    /// Worker to shard: whom does my key wait for?
    Ask,
    /// Shard to a newcomer: I know that you wait to be let in.
    Welcome,
    /// Worker to shard: at this step boundary all have decided to let these in; the next generation begins.
    Admit,
    /// Shard to a newcomer: you are in, from this generation on.
    Admitted,
    /// Shard to worker: those who would have given what is still missing of this step of the key are gone; nothing more comes.
    Absent,
}

impl Kind {
    const ALL: [Kind; 13] = [
        Kind::Push,
        Kind::Result,
        Kind::Ready,
        Kind::Go,
        Kind::Spec,
        Kind::Finish,
        Kind::Abort,
        Kind::Waiting,
        Kind::Ask,
        Kind::Welcome,
        Kind::Admit,
        Kind::Admitted,
        Kind::Absent,
    ];

    fn limit(self) -> usize {
        match self {
            Kind::Push | Kind::Result => CHUNK,
            Kind::Spec | Kind::Abort | Kind::Waiting | Kind::Admit | Kind::Admitted => MAX_WORDS,
            Kind::Ready | Kind::Go | Kind::Finish | Kind::Ask | Kind::Welcome | Kind::Absent => 0,
        }
    }
}

/// What a chunk's bytes are. Factors and lossy codecs take further numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// One worker's part.
    Dense,
    /// The parts of all workers of one host, already summed by them: their sum in the element types that hold one without
    /// harm (f32, f64), their mean in the narrow ones. `weight` is theirs together.
    Team,
}

impl Codec {
    const ALL: [Codec; 2] = [Codec::Dense, Codec::Team];

    /// What the bytes are multiplied by on their way into the sum.
    pub fn factor(self, dtype: DType, combine: Combine, weight: f64) -> f64 {
        match (self, combine) {
            (Codec::Team, _) if holds_sums(dtype) => 1.0,
            (Codec::Team, Combine::Sum) => 1.0,
            _ => weight,
        }
    }
}

/// Whether a sum of a few parts can be rounded to this type without harm. In half precision it could overflow, or lose what the mean keeps.
pub fn holds_sums(dtype: DType) -> bool {
    dtype.accumulator_size() == dtype.size()
}

/// What becomes of the contributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combine {
    Sum,
    Mean,
    WeightedMean,
    /// One worker's bytes, unchanged (broadcast, all-gather).
    Copy,
}

impl Combine {
    const ALL: [Combine; 4] = [Combine::Sum, Combine::Mean, Combine::WeightedMean, Combine::Copy];

    pub fn name(self) -> &'static str {
        match self {
            Combine::Sum => "sum",
            Combine::Mean => "mean",
            Combine::WeightedMean => "weighted mean",
            Combine::Copy => "copy",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header {
    pub kind: Kind,
    pub codec: Codec,
    pub dtype: DType,
    pub combine: Combine,
    /// With `Ready`: a gather that goes on without the parts of those who are gone. Then `offset` counts the sender's own chunks.
    pub partial: bool,
    pub run: u32,
    pub generation: u32,
    pub step: u64,
    pub key: u64,
    pub block: u32,
    pub offset: u32,
    pub len: u32,
    pub worker: u16,
    /// Position in the forward pass: lower is needed sooner.
    pub priority: u16,
    /// This worker's number of samples, or 1; a team's together.
    pub weight: f64,
    /// With `Ready`: bytes this worker will send to this shard for the key. With `Result`: one more than the rank that came last
    /// with its part or its readiness, 0 if that is not known.
    pub total: u64,
}

#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum WireError {
    #[error("not a frame of this protocol (first bytes {0:#06x})")]
    Magic(u16),
    #[error("protocol version {theirs}, but this side speaks {PROTOCOL_VERSION}")]
    Version { theirs: u8 },
    #[error("unknown {field} {value}")]
    Unknown { field: &'static str, value: u64 },
    #[error("a {kind:?} frame of {len} bytes, over the limit of {limit}")]
    TooLong { kind: Kind, len: usize, limit: usize },
    #[error("a weight of {0} (must be finite and not negative)")]
    Weight(String),
    #[error("a frame of another run or generation (run {run:#x}, generation {generation})")]
    Stranger { run: u32, generation: u32 },
    #[error("a {kind:?} frame that does not fit: {why}")]
    Misfit { kind: Kind, why: String },
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0u8; HEADER];
        out[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        out[2] = PROTOCOL_VERSION;
        out[3] = self.kind as u8;
        out[4] = self.codec as u8;
        out[5] = self.dtype.code();
        out[6] = self.combine as u8;
        out[7] = self.partial as u8;
        out[8..12].copy_from_slice(&self.run.to_le_bytes());
        out[12..16].copy_from_slice(&self.generation.to_le_bytes());
        out[16..24].copy_from_slice(&self.step.to_le_bytes());
        out[24..32].copy_from_slice(&self.key.to_le_bytes());
        out[32..36].copy_from_slice(&self.block.to_le_bytes());
        out[36..40].copy_from_slice(&self.offset.to_le_bytes());
        out[40..44].copy_from_slice(&self.len.to_le_bytes());
        out[44..46].copy_from_slice(&self.worker.to_le_bytes());
        out[46..48].copy_from_slice(&self.priority.to_le_bytes());
        out[48..56].copy_from_slice(&self.weight.to_le_bytes());
        out[56..64].copy_from_slice(&self.total.to_le_bytes());
        out
    }

    /// Refuses everything that this protocol cannot mean; nothing is allocated for a refused frame.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Header, WireError> {
        let u16_at = |i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]);
        let u32_at = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        let u64_at = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        if u16_at(0) != MAGIC {
            return Err(WireError::Magic(u16_at(0)));
        }
        if bytes[2] != PROTOCOL_VERSION {
            return Err(WireError::Version { theirs: bytes[2] });
        }
        let unknown = |field, value: u8| WireError::Unknown { field, value: u64::from(value) };
        let kind = *Kind::ALL.get(usize::from(bytes[3])).ok_or(unknown("kind of frame", bytes[3]))?;
        let codec = *Codec::ALL.get(usize::from(bytes[4])).ok_or(unknown("codec", bytes[4]))?;
        let dtype = DType::from_code(bytes[5]).ok_or(unknown("element type", bytes[5]))?;
        let combine = *Combine::ALL.get(usize::from(bytes[6])).ok_or(unknown("operation", bytes[6]))?;
        if bytes[7] > 1 {
            return Err(unknown("flag", bytes[7]));
        }
        let len = u32_at(40);
        if len as usize > kind.limit() {
            return Err(WireError::TooLong { kind, len: len as usize, limit: kind.limit() });
        }
        let weight = f64::from_le_bytes(std::array::from_fn(|k| bytes[48 + k]));
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(WireError::Weight(weight.to_string()));
        }
        Ok(Header {
            kind,
            codec,
            dtype,
            combine,
            partial: bytes[7] == 1,
            run: u32_at(8),
            generation: u32_at(12),
            step: u64_at(16),
            key: u64_at(24),
            block: u32_at(32),
            offset: u32_at(36),
            len,
            worker: u16_at(44),
            priority: u16_at(46),
            weight,
            total: u64_at(56),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Header {
        Header {
            kind: Kind::Push,
            codec: Codec::Dense,
            dtype: DType::Bf16,
            combine: Combine::WeightedMean,
            partial: false,
            run: 0xdead_beef,
            generation: 3,
            step: 1 << 40,
            key: u64::MAX - 1,
            block: 7,
            offset: CHUNK as u32,
            len: 4096,
            worker: 513,
            priority: 9,
            weight: 32.5,
            total: 12,
        }
    }

    /// WIRE-1: a kept sample; if this changes, PROTOCOL_VERSION must change with it.
    #[test]
    fn kept_sample_of_version_3() {
        let hex: String = sample().encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            "4853030000020200efbeadde030000000000000000010000feffffffffffffff\
             0700000000000200001000000102090000000000004040400c00000000000000"
        );
    }

    proptest! {
        #[test]
        fn decode_of_encode(step: u64, key: u64, block: u32, worker: u16, priority: u16, len in 0u32..CHUNK as u32, kind in 0usize..2, partial: bool) {
            let header = Header { kind: Kind::ALL[kind], partial, step, key, block, worker, priority, len, ..sample() };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn no_bytes_panic_and_no_length_passes_its_limit(bytes in proptest::array::uniform32(any::<u8>()), more in proptest::array::uniform32(any::<u8>()), good_start: bool) {
            let mut all = [0u8; HEADER];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&more);
            if good_start { all[..8].copy_from_slice(&sample().encode()[..8]); all[3] = bytes[3] % 13; }
            if let Ok(header) = Header::decode(&all) {
                prop_assert!(header.len as usize <= header.kind.limit());
            }
        }
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let mut bytes = sample().encode();
        bytes[2] = 9;
        assert_eq!(Header::decode(&bytes), Err(WireError::Version { theirs: 9 }));
        let huge = Header { len: CHUNK as u32 + 1, ..sample() };
        assert!(matches!(Header::decode(&huge.encode()), Err(WireError::TooLong { .. })));
        let nan = Header { weight: f64::NAN, ..sample() };
        assert!(matches!(Header::decode(&nan.encode()), Err(WireError::Weight(_))));
    }
}
