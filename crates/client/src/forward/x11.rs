//! X11 forwarding: channels that the server opens are joined to the X server of an [`X11Plan`].

use std::time::Instant;

use driver::Driver;
use proto::ChannelId;
use wire::names;

use super::SessionForwards;
use super::remote::refuse;
use crate::log::{debug1, verbose};
use crate::x11::X11Plan;

/// The X server of a session, when the server has been asked to forward it.
pub(super) struct ForwardedX11 {
    plan: X11Plan,
    is_requested: bool,
}

impl ForwardedX11 {
    pub(super) fn requested(&mut self) {
        self.is_requested = true;
    }
}

/// True for the type of channels to an X server.
pub(crate) fn is_x11(kind: &str) -> bool {
    kind == names::CHANNEL_X11
}

impl SessionForwards {
    /// Forwards this X server, when the server has been asked for it.
    #[must_use]
    pub fn with_x11(mut self, plan: X11Plan) -> Self {
        self.x11 = Some(ForwardedX11 {
            plan,
            is_requested: false,
        });
        self
    }

    /// The server has refused to forward X11.
    pub(crate) fn x11_refused(&mut self) {
        self.x11 = None;
    }

    pub(super) fn expects_x11(&self) -> bool {
        self.x11.as_ref().is_some_and(|x11| x11.is_requested)
    }

    /// The server opens a channel for a program's connection.
    pub(super) fn x11_opened(&mut self, channel: ChannelId, driver: &mut Driver) {
        let Some(x11) = &self.x11 else {
            return refuse(channel, driver);
        };
        if x11.plan.ends.is_some_and(|ends| ends <= Instant::now()) {
            verbose!("Rejected X11 connection after ForwardX11Timeout expired");
            return refuse(channel, driver);
        }
        debug1!("channel {}: X11 connection", channel.0);
        let plan = x11.plan.clone();
        let target = plan.target.clone();
        let first = Box::new(move |packet: &mut [u8]| plan.check(packet));
        self.forwards
            .connect_checked(channel, target, first, driver);
    }
}
