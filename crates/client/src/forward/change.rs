//! Forwardings that come and go while the session runs (the escape `~C`), and the report about all of
//! them at its end.

use config::forward::{ForwardKind, ForwardListen, ForwardSpec, ForwardTo};
use driver::Driver;
use driver::forward::ForwardTotals;

use super::remote::RemoteAnswer;
use super::{LocalForward, SessionForwards, udp};
use crate::error::ClientError;
use crate::log::debug1;
use crate::text::one_line;

/// The result of a request to add a forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// It cannot listen.
    Failed,
    /// It listens.
    Listens,
    /// The server has been asked; the request has this number.
    Requested(u64),
}

/// A forwarding, for the status of a shared connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForwardStatus {
    /// Flag and specification.
    pub(crate) name: String,
    /// Connections since the beginning, and those that are open.
    pub(crate) connections: u64,
    pub(crate) open: u64,
    /// Bytes to and from the server.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl SessionForwards {
    /// Adds a forwarding. A remote one is requested only, and its refusal is reported when it
    /// arrives.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn add(
        &mut self,
        kind: ForwardKind,
        spec: ForwardSpec,
        driver: &mut Driver,
    ) -> Result<Added, ClientError> {
        if !udp::is_possible(&spec, driver.connection()) {
            return Ok(Added::Failed);
        }
        let _ = sys::process::raise_open_files();
        if kind == ForwardKind::Remote {
            let forwards = &mut self.forwards;
            let request = self.remotes.add_later(&spec, forwards, driver)?;
            return Ok(Added::Requested(request));
        }
        match self.settings.listen(&spec.listen) {
            Some(sockets) => self.watch(sockets, spec, driver).map(|()| Added::Listens),
            None => Ok(Added::Failed),
        }
    }

    /// What [`Self::add`] has returned for a forwarding that is equal in all and still there.
    pub(crate) fn existing(&self, kind: ForwardKind, spec: &ForwardSpec) -> Option<Added> {
        if kind == ForwardKind::Remote {
            return self.remotes.equal(spec).map(Added::Requested);
        }
        let mut locals = self.locals.iter();
        let is_open = locals.any(|local| local.is_open && local.spec == *spec)
            || self.prepared.iter().any(|(_, prepared)| prepared == spec);
        is_open.then_some(Added::Listens)
    }

    /// The server's answer to the request with this number.
    pub(crate) fn remote_answer(&self, request: u64) -> RemoteAnswer {
        self.remotes.answer(request)
    }

    /// Ends the listener of a forwarding that is equal in all; its connections go on. False if there
    /// is none.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn cancel_equal(
        &mut self,
        kind: ForwardKind,
        spec: &ForwardSpec,
        driver: &mut Driver,
    ) -> Result<bool, ClientError> {
        if kind == ForwardKind::Remote {
            return self.remotes.cancel_equal(spec, driver);
        }
        let mut locals = self.locals.iter_mut();
        let Some(local) = locals.find(|local| local.is_open && local.spec == *spec) else {
            return Ok(false);
        };
        local.is_open = false;
        Ok(self.forwards.cancel(local.number, driver))
    }

    /// Ends the listeners of this kind at `listen`; their connections go on. False if there is none.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn cancel(
        &mut self,
        kind: ForwardKind,
        listen: &ForwardListen,
        driver: &mut Driver,
    ) -> Result<bool, ClientError> {
        if kind == ForwardKind::Remote {
            return self.remotes.cancel(listen, driver);
        }
        let mut found = false;
        for local in &mut self.locals {
            let is_dynamic = local.spec.to == ForwardTo::Socks;
            let is_meant = local.is_open
                && is_dynamic == (kind == ForwardKind::Dynamic)
                && self.settings.is_same(&local.spec.listen, listen);
            if is_meant {
                local.is_open = false;
                found |= self.forwards.cancel(local.number, driver);
            }
        }
        Ok(found)
    }

    /// Ends the local listeners, and keeps the connections and the remote ones.
    pub(crate) fn stop_listening(&mut self, driver: &mut Driver) {
        self.forwards.cancel_all(driver);
        for local in &mut self.locals {
            local.is_open = false;
        }
    }

    /// Flag and specification of each forwarding, with its number.
    fn names(&self) -> impl Iterator<Item = (String, &ForwardSpec, u64)> {
        let locals = self.locals.iter().map(|local| {
            let LocalForward { spec, number, .. } = local;
            let flag = match spec.to {
                ForwardTo::Socks => "-D",
                _ => "-L",
            };
            (flag, spec, *number)
        });
        let all = locals.chain(self.remotes.listed());
        all.map(|(flag, spec, number)| {
            let words = one_line(&spec.words().join(" to "));
            (format!("{flag} {words}"), spec, number)
        })
    }

    /// Flag and specification of the forwarding with this number.
    pub(super) fn name(&self, number: u64) -> Option<String> {
        let mut names = self.names();
        names.find_map(|(name, _, each)| (each == number).then_some(name))
    }

    /// The forwardings that listen, and what each has carried.
    pub(crate) fn statuses(&self, driver: &mut Driver) -> Vec<ForwardStatus> {
        let totals = self.forwards.totals(driver);
        let status = |(name, number): (String, u64)| {
            let ForwardTotals {
                connections,
                open,
                sent,
                received,
                ..
            } = totals.get(&number).copied().unwrap_or_default();
            ForwardStatus {
                name,
                connections,
                open,
                sent,
                received,
            }
        };
        let ended = |number: u64| {
            let mut locals = self.locals.iter();
            locals.any(|local| local.number == number && !local.is_open)
                || self.remotes.has_ended(number)
        };
        let names = self.names().map(|(name, _, number)| (name, number));
        names
            .filter(|(_, number)| !ended(*number))
            .map(status)
            .collect()
    }

    /// `-v`: logs what each forwarding has carried.
    pub(super) fn report_totals(&mut self, driver: &mut Driver) {
        let totals = self.forwards.totals(driver);
        for (name, spec, number) in self.names() {
            let ForwardTotals {
                connections,
                peak,
                sent,
                received,
                ..
            } = totals.get(&number).copied().unwrap_or_default();
            let what = match spec.listen {
                ForwardListen::Udp { .. } => "flows",
                _ => "connections",
            };
            debug1!(
                "forwarding {name}: {connections} {what}, at most {peak} at a time, {sent} bytes sent, {received} received"
            );
        }
    }
}
