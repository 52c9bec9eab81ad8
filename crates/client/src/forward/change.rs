//! Forwardings that come and go while the session runs (the escape `~C`), and the report about all of
//! them at its end.

use config::forward::{ForwardKind, ForwardListen, ForwardSpec, ForwardTo};
use driver::Driver;
use driver::forward::ForwardTotals;

use super::{LocalForward, SessionForwards, udp};
use crate::error::ClientError;
use crate::log::debug1;
use crate::text::one_line;

impl SessionForwards {
    /// Adds a forwarding; false if it cannot listen. A remote one is requested only, and its refusal
    /// is reported when it arrives.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn add(
        &mut self,
        kind: ForwardKind,
        spec: ForwardSpec,
        driver: &mut Driver,
    ) -> Result<bool, ClientError> {
        if !udp::is_possible(&spec, driver.connection()) {
            return Ok(false);
        }
        let _ = sys::process::raise_open_files();
        if kind == ForwardKind::Remote {
            let forwards = &mut self.forwards;
            self.remotes.add_later(&spec, forwards, driver)?;
            return Ok(true);
        }
        match self.settings.listen(&spec.listen) {
            Some(sockets) => self.watch(sockets, spec, driver).map(|()| true),
            None => Ok(false),
        }
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
