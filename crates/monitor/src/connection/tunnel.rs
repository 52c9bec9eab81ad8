//! Tunnel devices for the session: who may have one, and their opening.
//!
//! Invariant: a device is opened with the user's rights, so that `PermitTunnel` permits nobody a
//! device that the system denies him. Root may have any; others need one that the administrator has
//! made for them (`ip tuntap add … user`).

use std::os::fd::OwnedFd;

use config::server::PermitTunnel;
use keys::authorized_keys::TunnelUnit;
use privsep::TunnelOpen;
use sys::process::AsUser;
use sys::tun::TunKind;

use super::accounts::Account;
use super::rate::Rate;
use super::user::LoginUser;

/// Rate limit of devices: burst, and milliseconds until one more; each is an interface that the
/// kernel makes and that the system's services notice.
const DEVICE_BURST: u64 = 32;
const DEVICE_REFILL_MS: u64 = 1000;

/// The settings that decide over a session's devices.
pub(super) struct TunnelTerms {
    permit: PermitTunnel,
    /// `tunnel=` of the key: the only device.
    forced: Option<TunnelUnit>,
    rate: Rate,
}

impl TunnelTerms {
    pub(super) fn of(user: &LoginUser) -> Self {
        let forwarding = &user.options.forwarding;
        let grants = user.grants.as_ref();
        let forced = grants.and_then(|grants| grants.tunnel);
        // `restrict` forbids devices, unless the key names one. A user who must change the password
        // first gets nothing else.
        let is_restricted = grants.is_some_and(|grants| grants.restricted) && forced.is_none();
        let is_denied = forwarding.disable_forwarding || is_restricted || user.password_expired;
        Self {
            permit: match is_denied {
                true => PermitTunnel::No,
                false => forwarding.permit_tunnel,
            },
            forced,
            rate: Rate::new(DEVICE_BURST, DEVICE_REFILL_MS, sys::time::monotonic_ms()),
        }
    }

    /// The device that `request` gets: its kind and number. The error is for the log.
    fn decide(&self, request: &TunnelOpen) -> Result<(TunKind, Option<u32>), &'static str> {
        let kind = match request.ethernet {
            true => TunKind::Ethernet,
            false => TunKind::PointToPoint,
        };
        let is_permitted = match self.permit {
            PermitTunnel::Yes => true,
            PermitTunnel::No => false,
            PermitTunnel::PointToPoint => kind == TunKind::PointToPoint,
            PermitTunnel::Ethernet => kind == TunKind::Ethernet,
        };
        if !is_permitted {
            return Err("Server has rejected tunnel device forwarding");
        }
        let unit = match (self.forced, request.unit) {
            (None, unit) => unit,
            (Some(TunnelUnit::Any), None) => None,
            (Some(TunnelUnit::Unit(forced)), None) => Some(forced),
            (Some(TunnelUnit::Unit(forced)), Some(unit)) if forced == unit => Some(unit),
            (Some(_), Some(_)) => return Err("the key permits another tunnel device"),
        };
        Ok((kind, unit))
    }

    /// Opens the device that the session asks for; the error is for the log.
    pub(super) fn open(
        &mut self,
        request: &TunnelOpen,
        account: &Account,
    ) -> Result<(OwnedFd, String), String> {
        let (kind, unit) = self.decide(request)?;
        if !self.rate.take(1, sys::time::monotonic_ms()) {
            return Err("too many tunnel devices in a short time".to_owned());
        }
        // Without root this is the user already.
        let _as_user = sys::process::is_root()
            .then(|| AsUser::enter(&account.credentials()))
            .transpose()
            .map_err(|error| error.to_string())?;
        sys::tun::open_unit(kind, unit, request.with_header)
            .map_err(|error| format!("Failed to open the tunnel device: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(
        permit: PermitTunnel,
        forced: Option<TunnelUnit>,
        ethernet: bool,
        unit: Option<u32>,
    ) -> Option<Option<u32>> {
        let terms = TunnelTerms {
            permit,
            forced,
            rate: Rate::new(1, 1, 0),
        };
        let request = TunnelOpen {
            ethernet,
            unit,
            with_header: false,
        };
        let decided = terms.decide(&request).ok()?;
        assert_eq!(decided.0 == TunKind::Ethernet, ethernet);
        Some(decided.1)
    }

    #[test]
    fn the_configuration_permits_kinds() {
        use PermitTunnel::{Ethernet, No, PointToPoint, Yes};
        for (permit, packets, frames) in [
            (No, false, false),
            (Yes, true, true),
            (PointToPoint, true, false),
            (Ethernet, false, true),
        ] {
            assert_eq!(decided(permit, None, false, None).is_some(), packets);
            assert_eq!(decided(permit, None, true, None).is_some(), frames);
        }
    }

    /// As `server_request_tun` of OpenSSH's serverloop.c.
    #[test]
    fn a_key_permits_its_device_only() {
        let yes = PermitTunnel::Yes;
        let one = Some(TunnelUnit::Unit(1));
        let any = Some(TunnelUnit::Any);
        assert_eq!(decided(yes, None, false, Some(7)), Some(Some(7)));
        assert_eq!(decided(yes, one, false, None), Some(Some(1)));
        assert_eq!(decided(yes, one, false, Some(1)), Some(Some(1)));
        assert_eq!(decided(yes, one, false, Some(2)), None);
        assert_eq!(decided(yes, any, false, None), Some(None));
        assert_eq!(decided(yes, any, false, Some(2)), None);
        assert_eq!(decided(PermitTunnel::No, one, false, None), None);
    }
}
