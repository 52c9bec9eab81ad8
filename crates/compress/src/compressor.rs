//! [`Compressor`]: compresses the payloads of one direction into one zlib stream, singly or in
//! runs.

use std::fmt;
use std::sync::Arc;

use crate::CompressionReport;
use crate::deflate::{Carry, EncodeOutcome, append_flush, store};
use crate::effort::{CompressionSettings, PARTIAL_BELOW_BYTES, StreamLevel, cpu_ns, effort_for};
use crate::error::DeflateError;
use crate::form::Form;
use crate::history::Histories;
use crate::origin::Origin;
use crate::packet_compressor::PacketCompressor;
use crate::provider::{Flush, Provider};
use crate::run::{Engines, RunDone, RunJob, RunStart};

/// Pseudo-channel of pings and their answers. No real channel has this number.
const PINGS: u64 = u64::MAX;
/// Header of a stream (RFC 1950 §2.2): deflate, a window of 32 KiB, level 6.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x9c];

/// Tracks whether the connection has data of only one channel. Once it has had two channels, it
/// counts as shared for good.
#[derive(Debug, Default)]
struct Sharing {
    /// A channel was opened or confirmed.
    opened: bool,
    /// A second channel was opened or confirmed.
    opened_another: bool,
    /// The first channel that sent data.
    first: Option<u64>,
    /// A second channel has sent data.
    several: bool,
}

impl Sharing {
    fn note_opening(&mut self) {
        self.opened_another |= std::mem::replace(&mut self.opened, true);
    }

    /// Records data of `channel`; returns true for the first data of a second channel.
    fn note_data(&mut self, channel: u64) -> bool {
        let another = *self.first.get_or_insert(channel) != channel;
        another && !std::mem::replace(&mut self.several, true)
    }

    /// Returns true if data of another channel may follow.
    fn is_shared(&self) -> bool {
        self.opened_another || self.several
    }
}

/// Compression of the sending direction.
pub struct Compressor {
    level: StreamLevel,
    /// Recently sent plaintext, by channel.
    histories: Histories,
    carry: Carry,
    /// The stream's header has been sent.
    header_sent: bool,
    sharing: Sharing,
    engines: Arc<Engines>,
    report: CompressionReport,
}

impl Compressor {
    /// Starts a new stream.
    #[must_use]
    pub fn new(settings: CompressionSettings) -> Self {
        Self {
            level: StreamLevel::new(settings),
            histories: Histories::default(),
            carry: Carry::default(),
            header_sent: false,
            sharing: Sharing::default(),
            engines: Arc::new(Engines::internal()),
            report: CompressionReport::default(),
        }
    }

    /// Starts a new stream with the fixed level `level`, 1 to 9, without adaptation.
    #[must_use]
    pub fn with_level(level: u8) -> Self {
        Self::new(CompressionSettings {
            level,
            adaptive: false,
        })
    }

    /// Uses `provider` for runs until it fails or a second channel sends data: it cannot be
    /// verified that a library keeps two channels' bytes apart, so it gets those of one channel
    /// only.
    pub fn set_provider(&mut self, provider: Arc<dyn Provider>) {
        self.engines = Arc::new(Engines::of(provider));
        if self.sharing.several {
            self.engines.dismiss();
        }
    }

    /// Prepares for data of `channel`. At the first data of a second channel the provider is
    /// dismissed, and no bits of the first channel's data are carried over.
    fn admit(&mut self, channel: u64, out: &mut Vec<u8>) {
        if self.sharing.note_data(channel) {
            self.engines.dismiss();
            if !self.carry.is_empty() {
                append_flush(Flush::Sync, &mut self.carry, out);
            }
        }
    }

    /// Appends the deflated form of `payload` to `out`, unless it is to be stored.
    fn deflate(
        &mut self,
        channel: u64,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<EncodeOutcome, DeflateError> {
        let before = out.len();
        let flush = if payload.len() < PARTIAL_BELOW_BYTES && !self.sharing.is_shared() {
            Flush::Partial
        } else {
            Flush::Sync
        };
        let adaptive = self.level.settings.adaptive;
        let policy = adaptive.then(|| self.histories.policy(channel));
        let chosen = effort_for(policy, self.level.now, payload);
        let (history, start) = self.histories.remember(channel, payload, true);
        let mut outcome = EncodeOutcome::Stored;
        if let Some(effort) = chosen {
            let start_ns = cpu_ns();
            let (engine, source, policy) = history.parts();
            let engine = engine.ok_or(DeflateError)?;
            let end = source.window.len();
            let level = effort.level(self.level.now, || engine.gains(source, start, end));
            if let Some(level) = level {
                let carry = &mut self.carry;
                outcome = engine.encode(source, start, level, flush, carry, out)?;
                self.report.note_level(level);
            }
            self.report.cpu_ns += cpu_ns().saturating_sub(start_ns);
            let deflated = (outcome == EncodeOutcome::Deflated).then_some(out.len() - before);
            policy.note(payload.len(), deflated);
        } else if self.level.now == 0 {
            self.report.note_level(0);
        }
        Ok(outcome)
    }

    /// Begins a run of payloads of `channel`, which [`RunJob::run`] compresses on any thread. The
    /// caller passes its result to [`Compressor::finish_run`]. Runs may finish in any order, but
    /// their bytes must be sent in the order of the calls of `begin_run`. At most
    /// [`MAX_RUN_PAYLOADS`](crate::provider::MAX_RUN_PAYLOADS) payloads.
    pub fn begin_run<'p>(
        &mut self,
        channel: u64,
        payloads: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> RunJob {
        let mut lead = Vec::new();
        self.begin_stream(&mut lead);
        self.admit(channel, &mut lead);
        let policy = *self.histories.policy(channel);
        let (history, gaps) = self.histories.within_reach(channel);
        let job = RunJob::new(
            Arc::clone(&self.engines),
            channel,
            history,
            gaps,
            payloads.clone(),
            RunStart {
                lead,
                carry: std::mem::take(&mut self.carry),
                level: self.level.now,
                policy: self.level.settings.adaptive.then_some(policy),
            },
        );
        for payload in payloads {
            self.histories.remember(channel, payload, false);
        }
        job
    }

    /// Records the results of a run.
    pub fn finish_run(&mut self, done: &RunDone) {
        self.report.add(&done.report);
        if let Some(policy) = done.policy {
            self.histories.set_policy(done.channel, policy);
        }
    }

    fn begin_stream(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.header_sent, true) {
            out.extend_from_slice(&ZLIB_HEADER);
        }
    }

    /// Returns the provider's failure, once.
    pub fn take_failure(&mut self) -> Option<crate::provider::RunError> {
        self.engines.take_failure()
    }

    /// The engine for runs: `internal` or the provider's name; and which provider was dismissed
    /// because a second channel sent data.
    #[must_use]
    pub fn engine(&self) -> String {
        match (self.engines.provider(), self.engines.dismissed()) {
            (Some(provider), _) => provider.name(),
            (None, None) => "internal".to_owned(),
            (None, Some(name)) => {
                format!(
                    "internal (several channels have data, and {name} may not keep their histories apart)"
                )
            }
        }
    }

    /// The name of the provider that was dismissed because a second channel sent data.
    #[must_use]
    pub fn dismissed(&self) -> Option<String> {
        self.engines.dismissed()
    }

    /// Returns true if a provider encodes runs.
    #[must_use]
    pub fn has_provider(&self) -> bool {
        self.engines.has_provider()
    }
}

impl PacketCompressor for Compressor {
    fn compress_around(
        &mut self,
        origin: Origin,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Form, DeflateError> {
        let before = out.len();
        self.begin_stream(out);
        let outcome = match origin {
            Origin::Channel(channel) => {
                self.admit(channel, out);
                self.deflate(channel, payload, out)?
            }
            Origin::Ping => self.deflate(PINGS, payload, out)?,
            Origin::Opening => {
                self.sharing.note_opening();
                self.histories.pass(payload);
                EncodeOutcome::Stored
            }
            Origin::Other => {
                self.histories.pass(payload);
                EncodeOutcome::Stored
            }
        };
        let form = match outcome {
            EncodeOutcome::Deflated => {
                self.report.internal += 1;
                Form::Compressed
            }
            EncodeOutcome::Stored => {
                self.report.stored += 1;
                store(payload, &mut self.carry, out)
            }
        };
        let whole = form.whole_bytes(out.len() - before, payload.len());
        self.report.totals.count(payload.len(), whole);
        Ok(form)
    }

    fn reset(&mut self) {
        self.histories.restart();
        self.carry = Carry::default();
        self.header_sent = false;
    }

    fn level(&self) -> u8 {
        self.level.now
    }

    fn set_level(&mut self, level: u8) {
        self.level.set(level);
    }

    fn has_spare(&self) -> bool {
        self.histories.has_spare() || self.engines.has_spare()
    }

    fn shed(&mut self) {
        self.engines.shed();
        self.histories.shed();
    }

    fn report(&self) -> CompressionReport {
        self.report
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("level", &self.level)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
