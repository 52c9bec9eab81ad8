//! A device whose packets are those of a channel.
//!
//! What the device has is read only while the channel takes data: meanwhile the kernel's queue of
//! the device fills, and drops what does not fit, as a slow line does. A packet that the peer's
//! window or maximum packet does not take whole is dropped, if each message is a packet. What the
//! peer sends is written at once, and dropped if the kernel does not take it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use packet::PacketBuf;
use proto::{Error, Stream};

use super::form::{DEVICE_HEADER_BYTES, PacketForm};
use super::records::{RecordWriter, Records};
use crate::{ChannelHandler, ChannelIo, HandlerProgress};

/// Largest packet of a device, bytes: that of IP, or an Ethernet frame with it.
const MAX_PACKET_BYTES: usize = 65_535 + 18;
/// Largest record: a packet and its segment size.
const MAX_RECORD_BYTES: usize = MAX_PACKET_BYTES + 2;
/// Maximum packets that are dropped in one turn: a flood of them leaves the other channels their turns.
const MAX_DROPS: usize = 64;
/// Bytes of records that are gathered before they are sent.
const GATHERED_BYTES: usize = 256 * 1024;

/// Moves packets between a device and its channel.
pub struct PacketPort {
    device: OwnedFd,
    form: PacketForm,
    /// Bytes by which the peer's window shrinks beside the data of each message.
    overhead: usize,
    /// One packet of the device.
    scratch: Vec<u8>,
    is_readable: bool,
    /// Messages of the peer, each a packet; or its records.
    messages: VecDeque<Bytes>,
    records: Records,
    /// Bytes in them that the channel has not been told as consumed.
    held: usize,
    /// Records to be sent.
    outgoing: VecDeque<PacketBuf>,
    has_ended: bool,
}

impl std::fmt::Debug for PacketPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketPort")
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

impl PacketPort {
    /// A port for `device`, which must not block. `overhead`: bytes by which the peer's window
    /// shrinks beside the data of each message.
    #[must_use]
    pub fn new(device: OwnedFd, form: PacketForm, overhead: usize) -> Self {
        Self {
            device,
            form,
            overhead,
            scratch: vec![0; DEVICE_HEADER_BYTES + MAX_PACKET_BYTES],
            is_readable: true,
            messages: VecDeque::new(),
            records: Records::new(MAX_RECORD_BYTES),
            held: 0,
            outgoing: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Writes what the peer has sent; false if it is malformed.
    fn write_received(&mut self) -> bool {
        while let Some(message) = self.messages.pop_front() {
            self.write(&message);
        }
        loop {
            match self.records.next_record() {
                Ok(Some(record)) => self.write(&record),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn write(&self, received: &[u8]) {
        if let Some((header, packet)) = self.form.to_device(received) {
            let header = header.as_ref().map_or(&[][..], |header| &header[..]);
            let slices = [IoSlice::new(header), IoSlice::new(packet)];
            // The kernel refuses a malformed packet, and every packet while the interface is down.
            let _ = sys::io::writev(&self.device, &slices);
        }
    }

    /// Reads one packet; returns its length in `scratch`, or `None` if there is none now.
    fn read(&mut self) -> Option<usize> {
        match sys::io::read(&self.device, &mut self.scratch) {
            Ok(count @ 1..) => return Some(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
            // The interface was removed.
            Ok(0) | Err(_) => self.has_ended = true,
        }
        None
    }

    /// Returns true if more can be read at once.
    fn send_messages(&mut self, line: &mut ChannelIo<'_>) -> Result<bool, Error> {
        let mut drops_left = MAX_DROPS;
        while self.is_readable && !self.has_ended {
            let space = line.space();
            if space == 0 {
                break;
            }
            if drops_left == 0 {
                return Ok(true);
            }
            let Some(count) = self.read() else {
                break;
            };
            let read = self.scratch.get_mut(..count).unwrap_or_default();
            let message = self.form.to_channel(read).filter(|(prefix, packet)| {
                prefix.bytes().len() + packet.len() + self.overhead <= space
            });
            let Some((prefix, packet)) = message else {
                drops_left -= 1;
                continue;
            };
            let mut buf = line.take_buffer(prefix.bytes().len() + packet.len());
            buf.extend(prefix.bytes());
            buf.extend(packet);
            line.send(buf)?;
            line.charge(self.overhead);
        }
        Ok(false)
    }

    fn send_records(&mut self, line: &mut ChannelIo<'_>) -> Result<(), Error> {
        loop {
            line.send_queued(&mut self.outgoing)?;
            if !self.outgoing.is_empty() || !self.is_readable || self.has_ended {
                return Ok(());
            }
            let mut writer = RecordWriter::new(line.max_data(), line.max_data());
            while writer.gathered() < GATHERED_BYTES {
                let Some(count) = self.read() else {
                    break;
                };
                let read = self.scratch.get_mut(..count).unwrap_or_default();
                if let Some((prefix, packet)) = self.form.to_channel(read) {
                    writer.record(&[prefix.bytes(), packet], line);
                }
            }
            self.outgoing = writer.finish();
        }
    }
}

impl ChannelHandler for PacketPort {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        self.held += data.len();
        // A tunnel has no standard error.
        if stream == Stream::Data {
            match self.form.is_message() {
                true => self.messages.push_back(data),
                false => self.records.push(data),
            }
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
    }

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        if !self.write_received() {
            self.has_ended = true;
        }
        line.consumed(std::mem::take(&mut self.held))?;
        let mut has_more = false;
        if !self.has_ended {
            match self.form.is_message() {
                true => has_more = self.send_messages(line)?,
                false => self.send_records(line)?,
            }
        }
        Ok(match self.has_ended {
            true => HandlerProgress::Ended,
            false if has_more => HandlerProgress::Busy,
            false => HandlerProgress::Waiting,
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }

    fn awaits_input(&self) -> bool {
        !self.is_readable
    }

    fn input_ready(&mut self) {
        self.is_readable = true;
    }
}
