//! Decodes the client's messages and passes each request on to the code that carries it out.

use super::permits::{self, NotInit, RequestRefusal, SftpPhase};
use super::status::Failed;
use super::{Buffers, Done, LogLevel, Serve, ServeError, shown};
use crate::Code;
use crate::extension::{Extended, Limits};
use crate::message::request::{Open, Read};
use crate::message::{Request, reply};

impl Serve {
    pub(super) fn message(
        &mut self,
        message: &[u8],
        buffers: &mut dyn Buffers,
    ) -> Result<(), ServeError> {
        if self.phase == SftpPhase::Beginning {
            let (phase, permits) = (&mut self.phase, &self.permits);
            let mut answer = Vec::new();
            phase
                .begin(message, permits, &mut answer)
                .map_err(|NotInit| ServeError::NotInit)?;
            self.out.put(&answer, buffers);
            if let SftpPhase::Serving { client_version } = self.phase {
                self.log.line(
                    LogLevel::Verbose,
                    &format!("received client version {client_version}"),
                );
            }
            return Ok(());
        }
        let (id, request) = match Request::decode(message) {
            Ok(decoded) => decoded,
            Err(error) => {
                let Some(id) = error.id else {
                    return Err(ServeError::NoId(error));
                };
                self.log.line(LogLevel::Error, &format!("bad {error}"));
                let failed = Failed::new(Code::BAD_MESSAGE, error.error.to_string());
                self.fail(id, &failed, buffers);
                return Ok(());
            }
        };
        match self.permits.request(&request) {
            Ok(()) => self.request(id, &request, buffers),
            Err(refusal) => self.refuse(id, permits::name(&request), refusal, buffers),
        }
        Ok(())
    }

    pub(super) fn refuse(
        &mut self,
        id: u32,
        name: Option<&str>,
        refusal: RequestRefusal,
        buffers: &mut dyn Buffers,
    ) {
        let name = name.unwrap_or("unknown");
        let text = match refusal {
            RequestRefusal::ReadOnly => {
                self.log.line(
                    LogLevel::Verbose,
                    &format!("Refusing {name} request in read-only mode"),
                );
                "the server is read-only"
            }
            RequestRefusal::NotPermitted => {
                self.log
                    .line(LogLevel::Verbose, &format!("Refusing {name} request"));
                "the server does not permit this request"
            }
        };
        let failed = Failed::new(Code::PERMISSION_DENIED, text);
        self.fail(id, &failed, buffers);
    }

    fn request(&mut self, id: u32, request: &Request<'_>, buffers: &mut dyn Buffers) {
        let done = match request {
            Request::Open(open) => self.open(id, open, buffers),
            Request::Close(close) => self.close(id, close.handle, buffers),
            Request::Read(read) => self.read(id, read, buffers),
            // The splitter streams WRITE, so a whole one cannot occur.
            Request::Write(_) => Err(Failed::code(Code::BAD_MESSAGE)),
            Request::Opendir(request) => self.open_directory(id, request.path, buffers),
            Request::Readdir(request) => self.read_directory(id, request.handle, buffers),
            Request::Extended(extended) => self.extended(id, extended, buffers),
            Request::UnknownExtension { name } => {
                self.log.line(
                    LogLevel::Debug1,
                    &format!("unknown extended request \"{}\"", shown(name)),
                );
                Err(Failed::code(Code::OP_UNSUPPORTED))
            }
            Request::Unknown { number } => {
                self.log
                    .line(LogLevel::Error, &format!("Unknown message {number}"));
                Err(Failed::code(Code::OP_UNSUPPORTED))
            }
            _ => self.by_path(id, request, buffers),
        };
        if let Err(failed) = done {
            self.fail(id, &failed, buffers);
        }
    }

    fn extended(&mut self, id: u32, extended: &Extended<'_>, buffers: &mut dyn Buffers) -> Done {
        match extended {
            Extended::GetLimits(_) => {
                let limits = Limits {
                    max_message_bytes: crate::MAX_MESSAGE_BYTES as u64,
                    max_read_bytes: u64::from(crate::MAX_DATA_BYTES),
                    max_write_bytes: u64::from(crate::MAX_DATA_BYTES),
                    max_handles: self.handles.max() as u64,
                };
                self.answer_extended(id, buffers, |out| limits.write(out));
                Ok(())
            }
            Extended::SetExactTimes(request) => {
                self.exact_times = request.on;
                self.ok(id, buffers);
                Ok(())
            }
            Extended::Cancel(cancel) => {
                let position = self.jobs.iter().position(|job| job.id() == cancel.request);
                if let Some(job) = position.and_then(|position| self.jobs.remove(position)) {
                    let failed = Failed::new(Code::FAILURE, "cancelled");
                    self.fail(job.id(), &failed, buffers);
                }
                self.ok(id, buffers);
                Ok(())
            }
            Extended::HashRange(request) => self.hash_range(id, request),
            Extended::ReadRange(request) => self.read_range(id, request),
            Extended::OpenRead(request) => self.open_read(id, request, buffers),
            Extended::PutFile(request) => self.put_file(id, request, buffers),
            Extended::Walk(request) => self.walk(id, request, buffers),
            Extended::WalkOn(request) => {
                self.walk_on(id, request, buffers);
                Ok(())
            }
            _ => self.openssh(id, extended, buffers),
        }
    }

    fn open(&mut self, id: u32, request: &Open<'_>, buffers: &mut dyn Buffers) -> Done {
        let handle = self.handles.open(&self.place, request, &*self.log)?;
        self.answer(buffers, |out| {
            reply::Handle { handle: &handle }.encode_into(id, out);
        });
        Ok(())
    }

    fn close(&mut self, id: u32, handle: &[u8], buffers: &mut dyn Buffers) -> Done {
        self.handles.close(handle, &*self.log)?;
        self.ok(id, buffers);
        Ok(())
    }

    fn read(&mut self, id: u32, request: &Read<'_>, buffers: &mut dyn Buffers) -> Done {
        let file = self.handles.file(request.handle)?;
        let len = request.len.min(crate::MAX_DATA_BYTES);
        if self.log.wants(LogLevel::Debug1) {
            let name = shown(&file.path);
            let line = format!(
                "request {id}: read \"{name}\" off {} len {len}",
                request.offset
            );
            self.log.line(LogLevel::Debug1, &line);
        }
        let fd = &file.fd;
        let count = self.out.data(id, len, buffers, &mut |room, done| {
            sys::fs::content::read_at(fd, room, request.offset.saturating_add(done))
        })?;
        if count == 0 && len > 0 {
            return Err(Failed::code(Code::EOF));
        }
        file.read += u64::from(count);
        self.moved += usize::try_from(count).unwrap_or(0);
        if len == 0 {
            self.answer(buffers, |out| {
                out.extend_from_slice(&reply::data_head(id, 0));
            });
        }
        Ok(())
    }
}
