//! The effort for a payload: the settings of a stream, its current level, and what `adaptive`
//! advises.

use crate::DEFAULT_LEVEL;
use crate::adaptive::{PayloadRoute, Policy};

/// Smaller payloads end with a partial flush if the stream has only one channel. It is 3.6 bytes
/// shorter on average, but may carry bits over to the next payload, which runs cannot handle and
/// which would reveal the length of these payloads in bits to another channel.
pub(crate) const PARTIAL_BELOW_BYTES: usize = 1024;

/// Compression settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionSettings {
    /// Compression level, clamped to 1 to 9.
    pub level: u8,
    /// If true, payloads that look incompressible are stored, and the level may be
    /// [lowered](crate::PacketCompressor::set_level).
    pub adaptive: bool,
}

/// Settings of a stream, and the level of its next payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamLevel {
    pub(crate) settings: CompressionSettings,
    /// Level for the next payload; 0 stores.
    pub(crate) now: u8,
}

impl StreamLevel {
    pub(crate) fn new(settings: CompressionSettings) -> Self {
        let level = settings.level.clamp(1, 9);
        Self {
            settings: CompressionSettings { level, ..settings },
            now: level,
        }
    }

    /// Sets the level for the next payload, at most that of the settings, if it may change.
    pub(crate) fn set(&mut self, level: u8) {
        if self.settings.adaptive {
            self.now = level.min(self.settings.level);
        }
    }
}

impl Default for CompressionSettings {
    fn default() -> Self {
        Self {
            level: DEFAULT_LEVEL,
            adaptive: true,
        }
    }
}

/// How to treat a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadEffort {
    /// Deflate it at this level.
    Level(u8),
    /// Deflate it if a test of its beginning shows that it becomes smaller.
    Attempt,
}

impl PayloadEffort {
    /// The level to deflate at, given the stream's level and the result of a test; `None` stores.
    pub(crate) fn level(self, level: u8, gains: impl FnOnce() -> bool) -> Option<u8> {
        match self {
            Self::Level(level) => Some(level),
            Self::Attempt => gains().then_some(level.max(1)),
        }
    }
}

/// Decides the effort for `payload` from the results of earlier ones, if there is a policy; `None`
/// stores it.
pub(crate) fn effort_for(
    policy: Option<&mut Policy>,
    level: u8,
    payload: &[u8],
) -> Option<PayloadEffort> {
    let Some(policy) = policy else {
        return Some(PayloadEffort::Level(level.max(1)));
    };
    if level == 0 {
        return (payload.len() < PARTIAL_BELOW_BYTES).then_some(PayloadEffort::Level(1));
    }
    match policy.choose(payload) {
        PayloadRoute::Store => None,
        PayloadRoute::Attempt => Some(PayloadEffort::Attempt),
        PayloadRoute::Deflate => Some(PayloadEffort::Level(level)),
    }
}

/// CPU time of this thread, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}
