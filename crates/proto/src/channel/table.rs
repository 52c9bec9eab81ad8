//! The channels of a connection by our numbers. A new channel gets the lowest free number, so that
//! a peer that pipelines requests after CHANNEL_OPEN can predict the number of the first one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::ChannelRecord;
use crate::{ChannelId, Error};

#[derive(Default)]
pub(super) struct ChannelTable {
    slots: Vec<Option<ChannelRecord>>,
    /// Numbers of the empty slots.
    free: BTreeSet<u32>,
    /// Serial number of the newest channel.
    last_serial: u64,
    /// Our numbers of the channels that the peer opened, by its numbers.
    by_peer: BTreeMap<u32, u32>,
    /// Highest of the numbers under which the peer has requested a channel.
    highest_by_peer: Option<u32>,
    /// Numbers that another process uses: their serial numbers, and the peer's number of a channel
    /// that it requested. Their slots are empty and not free.
    proxied: BTreeMap<u32, (u64, Option<u32>)>,
}

fn index(id: ChannelId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

impl ChannelTable {
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All channels with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (ChannelId, &ChannelRecord)> {
        let ids = (0..).map(ChannelId);
        let slots = ids.zip(&self.slots);
        slots.filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }

    /// As [`Self::numbered`].
    pub(super) fn numbered_mut(&mut self) -> impl Iterator<Item = (ChannelId, &mut ChannelRecord)> {
        let ids = (0..).map(ChannelId);
        let slots = ids.zip(&mut self.slots);
        slots.filter_map(|(id, slot)| Some((id, slot.as_mut()?)))
    }

    pub(super) fn get(&self, id: ChannelId) -> Option<&ChannelRecord> {
        self.slots.get(index(id))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: ChannelId) -> Option<&mut ChannelRecord> {
        self.slots.get_mut(index(id))?.as_mut()
    }

    /// The channel that a command names.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is none.
    pub(super) fn commanded(&mut self, id: ChannelId) -> Result<&mut ChannelRecord, Error> {
        self.get_mut(id).ok_or(Error::Misuse("no such channel"))
    }

    /// The channel that a peer's message names; `None` if the message is late: the peer has closed
    /// the channel, or we refused it, and the channel that has its number now, if any, is not
    /// answered. paramiko 5.1 sends what one thread has begun (WINDOW_ADJUST, data, EOF) after another
    /// thread's CLOSE, which only costs the message; `paramiko_forwards_ports` in tests/interop shows
    /// it.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] if the peer may not send messages on it.
    pub(super) fn addressed(
        &mut self,
        id: u32,
    ) -> Result<Option<(ChannelId, &mut ChannelRecord)>, Error> {
        self.find_addressed(id, false)
    }

    /// As [`Self::addressed`]; `early`: the message names the peer's number of the channel.
    pub(super) fn find_addressed(
        &mut self,
        id: u32,
        early: bool,
    ) -> Result<Option<(ChannelId, &mut ChannelRecord)>, Error> {
        let id = ChannelId(id);
        match self.slots.get_mut(index(id)) {
            Some(Some(channel)) => Ok(channel.is_addressed(early)?.then_some((id, channel))),
            Some(None) => Ok(None),
            None => Err(Error::PeerMisbehaved(
                "message on a channel that does not exist",
            )),
        }
    }

    /// The channel of ours that a peer's answer names.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] if none awaits an answer.
    pub(super) fn opening(&mut self, id: ChannelId) -> Result<&mut ChannelRecord, Error> {
        let channel = self.get_mut(id).filter(|channel| channel.is_opening());
        channel.ok_or(Error::PeerMisbehaved(
            "answer to a channel that was not opened",
        ))
    }

    pub(super) fn insert(&mut self, mut channel: ChannelRecord) -> Result<ChannelId, Error> {
        self.last_serial += 1;
        let next = u32::try_from(self.slots.len()).map_err(|_| Error::Bug("channel number"))?;
        let reused = self.free.pop_first();
        let id = ChannelId(reused.unwrap_or(next));
        channel.insert(id.0, self.last_serial, reused.is_some());
        if channel.is_asked() {
            self.by_peer.insert(channel.remote(), id.0);
        }
        match self.slots.get_mut(index(id)) {
            Some(slot) => *slot = Some(channel),
            None => self.slots.push(Some(channel)),
        }
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: ChannelId) -> Option<ChannelRecord> {
        let removed = self.slots.get_mut(index(id))?.take()?;
        self.free.insert(id.0);
        if self.by_peer.get(&removed.remote()) == Some(&id.0) {
            self.by_peer.remove(&removed.remote());
        }
        Some(removed)
    }

    // ---- numbers that another process uses ------------------------------------------------

    /// Gives a number to a channel of another process: that of a channel of the peer, with the
    /// peer's number, or a free one.
    pub(super) fn reserve(
        &mut self,
        of_peer: Option<(ChannelId, u32)>,
    ) -> Result<ChannelId, Error> {
        self.last_serial += 1;
        let next = u32::try_from(self.slots.len()).map_err(|_| Error::Bug("channel number"))?;
        let id = match of_peer {
            Some((id, _)) => id,
            None => ChannelId(self.free.first().copied().unwrap_or(next)),
        };
        self.free.remove(&id.0);
        if index(id) >= self.slots.len() {
            self.slots.push(None);
        }
        let remote = of_peer.map(|(_, remote)| remote);
        if let Some(remote) = remote {
            self.by_peer.insert(remote, id.0);
        }
        self.proxied.insert(id.0, (self.last_serial, remote));
        Ok(id)
    }

    /// Frees a number that another process has used.
    pub(super) fn release(&mut self, id: ChannelId) {
        let Some((_, remote)) = self.proxied.remove(&id.0) else {
            return;
        };
        self.free.insert(id.0);
        if let Some(remote) = remote
            && self.by_peer.get(&remote) == Some(&id.0)
        {
            self.by_peer.remove(&remote);
        }
    }

    pub(super) fn has_proxied(&self) -> bool {
        !self.proxied.is_empty()
    }

    pub(super) fn is_proxied(&self, id: ChannelId) -> bool {
        self.proxied.contains_key(&id.0)
    }

    /// The serial number of a channel of another process.
    pub(super) fn proxied_serial(&self, id: ChannelId) -> Option<u64> {
        self.proxied.get(&id.0).map(|(serial, _)| *serial)
    }

    /// Records that the peer requests a channel under its number.
    pub(super) fn note_request(&mut self, number: u32) {
        self.highest_by_peer = self.highest_by_peer.max(Some(number));
    }

    /// The channel that the peer requested under its number; `None` if it was refused, or has ended.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] for a number that it has not used.
    pub(super) fn opened_by_peer(&self, number: u32) -> Result<Option<ChannelId>, Error> {
        if self.highest_by_peer < Some(number) {
            return Err(Error::PeerMisbehaved(
                "message on a channel that does not exist",
            ));
        }
        Ok(self.by_peer.get(&number).copied().map(ChannelId))
    }
}
