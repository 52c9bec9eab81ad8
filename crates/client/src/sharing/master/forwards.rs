//! Forwardings that passengers add and cancel. As in OpenSSH they belong to the master and outlast
//! their passengers; one that is there already is not added again.

use driver::Driver;

use super::Master;
use crate::error::ClientError;
use crate::forward::{Added, RemoteAnswer, SessionForwards};
use crate::log::{error, info};
use crate::sharing::message::{ForwardWish, MasterReply};
use crate::text::one_line;

impl Master {
    pub(super) fn open_forward(
        &mut self,
        (serial, id): (u64, u32),
        wish: &ForwardWish,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let Some((kind, spec)) = wish.spec() else {
            self.fail(serial, id, "Invalid forwarding request", driver);
            return Ok(());
        };
        // The place of one that was refused may be used for this one.
        self.answer_remotes(forwards, driver);
        let words = one_line(&spec.words().join(" to "));
        let question = format!("Open {kind:?} forwarding {words} on {}?", self.host());
        let added = match forwards.existing(kind, &spec) {
            Some(added) => added,
            None if !self.is_permitted(serial, id, &question, driver) => return Ok(()),
            None => forwards.add(kind, spec, driver)?,
        };
        match added {
            Added::Listens => self.answer(serial, &MasterReply::Ok(id), driver),
            Added::Failed => {
                info!("requested forwarding {words} failed");
                self.fail(serial, id, "Port forwarding failed", driver);
            }
            Added::Requested(request) => {
                if let Some(control) = self.controls.get_mut(&serial) {
                    control.is_paused = true;
                }
                self.unanswered.push((serial, id, request));
                self.answer_remotes(forwards, driver);
            }
        }
        Ok(())
    }

    /// Answers the passengers whose requests the server has answered.
    pub(super) fn answer_remotes(&mut self, forwards: &SessionForwards, driver: &mut Driver) {
        if self.unanswered.is_empty() {
            return;
        }
        for (serial, id, request) in std::mem::take(&mut self.unanswered) {
            let reply = match forwards.remote_answer(request) {
                RemoteAnswer::Awaited => {
                    self.unanswered.push((serial, id, request));
                    continue;
                }
                RemoteAnswer::Listens { chosen: Some(port) } => {
                    MasterReply::RemotePort(id, u32::from(port))
                }
                RemoteAnswer::Listens { chosen: None } => MasterReply::Ok(id),
                RemoteAnswer::Refused(place) => {
                    let text = format!("remote port forwarding failed for {place}");
                    error!("{text}");
                    MasterReply::Failed(id, text)
                }
            };
            self.answer(serial, &reply, driver);
            self.resume(serial, driver);
        }
    }

    pub(super) fn close_forward(
        &mut self,
        (serial, id): (u64, u32),
        wish: &ForwardWish,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let is_done = match wish.spec() {
            Some((kind, spec)) => forwards.cancel_equal(kind, &spec, driver)?,
            None => false,
        };
        match is_done {
            true => self.answer(serial, &MasterReply::Ok(id), driver),
            false => self.fail(serial, id, "port not forwarded", driver),
        }
        Ok(())
    }
}
