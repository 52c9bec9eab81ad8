//! The features of a session that a line of authorized_keys or a certificate can deny, one row each.
//!
//! Every permission is the extension `permit-NAME` of certificates (PROTOCOL.certkeys, "Extensions")
//! and the options `NAME` and `no-NAME` of authorized_keys (sshd(8)), in any case there. The readers of
//! both, the default extensions of a new certificate and the monitor's message to the session process
//! come from this table. [`PermitTarget`] is an entry of a list of permitted targets.

use alloc::string::String;

macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident $extension:literal $expired:ident;)*) => {
        /// A feature of a session that a key's options can deny.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Permission {
            $($(#[$doc])* $name,)*
        }

        impl Permission {
            /// All of them, in the order of a new certificate's extensions.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name of the certificate extension that grants the permission.
            #[must_use]
            pub const fn extension(self) -> &'static str {
                match self {
                    $(Self::$name => $extension,)*
                }
            }

            /// True if a user whose password has expired keeps the permission for the session in which
            /// it is changed.
            const fn outlives_password(self) -> bool {
                match self {
                    $(Self::$name => matches!(Expired::$expired, Expired::Kept),)*
                }
            }
        }
    };
}

/// What an expired password does to a permission.
enum Expired {
    Kept,
    Denied,
}

permissions! {
    /// X11 connections to the client.
    X11Forwarding "permit-X11-forwarding" Denied;
    /// Connections to the client's agent.
    AgentForwarding "permit-agent-forwarding" Denied;
    /// Forwarded TCP connections, Unix sockets and datagrams, in both directions.
    PortForwarding "permit-port-forwarding" Denied;
    /// Terminals.
    Pty "permit-pty" Kept;
    /// The user's ~/.ssh/rc.
    UserRc "permit-user-rc" Kept;
}

impl Permission {
    /// The name of the option in authorized_keys that grants the permission; with `no-` it denies it.
    #[must_use]
    pub fn option(self) -> &'static str {
        let extension = self.extension();
        extension.strip_prefix("permit-").unwrap_or(extension)
    }

    /// The permission of an option without its `no-`, in any case.
    #[must_use]
    pub fn of_option(name: &str) -> Option<Self> {
        let named = |each: &&Self| each.option().eq_ignore_ascii_case(name);
        Self::ALL.iter().find(named).copied()
    }

    /// The permission that a certificate extension grants; its name is compared with case.
    #[must_use]
    pub fn of_extension(name: &str) -> Option<Self> {
        let named = |each: &&Self| each.extension() == name;
        Self::ALL.iter().find(named).copied()
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A set of [`Permission`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions(u32);

impl Permissions {
    /// Denies every feature.
    pub const NONE: Self = Self(0);
    /// Permits every feature.
    pub const ALL: Self = Self((1 << Permission::ALL.len()) - 1);

    /// True if the feature is permitted.
    #[must_use]
    pub const fn permits(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Permits or denies one feature.
    pub fn set(&mut self, permission: Permission, is_permitted: bool) {
        match is_permitted {
            true => self.0 |= permission.bit(),
            false => self.0 &= !permission.bit(),
        }
    }

    /// The features that both sets permit.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that remain while an expired password is changed.
    #[must_use]
    pub fn with_expired_password(mut self) -> Self {
        for each in Permission::ALL {
            if !each.outlives_password() {
                self.set(*each, false);
            }
        }
        self
    }

    /// The set as a number: one bit for each permission.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The set of a number from [`Self::to_bits`]; `None` if a bit has no permission.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits & !Self::ALL.0 {
            0 => Some(Self(bits)),
            _ => None,
        }
    }
}

/// A target that connections or datagrams may be forwarded to, or an address and port that the
/// server may listen on for the client: an entry of `permitopen`, `permitlisten`, PermitOpen,
/// PermitListen or PermitRemoteOpen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitTarget {
    /// The target is of datagrams, not of connections.
    pub is_udp: bool,
    /// Host as written, without brackets; `*` for any host.
    pub host: String,
    /// Port, 1 to 65535; `None` for any port.
    pub port: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        for each in Permission::ALL {
            let mut set = Permissions::NONE;
            set.set(*each, true);
            assert_eq!(Permissions::from_bits(set.to_bits()), Some(set));
            for other in Permission::ALL {
                assert_eq!(set.permits(*other), other == each);
            }
            let mut rest = Permissions::ALL;
            rest.set(*each, false);
            assert_eq!(rest.and(set), Permissions::NONE);
        }
        assert_eq!(Permissions::from_bits(Permissions::ALL.to_bits() + 1), None);
    }

    #[test]
    fn options_are_found_in_any_case_and_extensions_as_they_are_written() {
        assert_eq!(
            Permission::of_option("x11-forwarding"),
            Some(Permission::X11Forwarding)
        );
        assert_eq!(Permission::of_option("permit-pty"), None);
        assert_eq!(
            Permission::of_extension("permit-pty"),
            Some(Permission::Pty)
        );
        assert_eq!(Permission::of_extension("permit-x11-forwarding"), None);
    }

    #[test]
    fn an_expired_password_leaves_a_terminal_and_no_forwarding() {
        let left = Permissions::ALL.with_expired_password();
        for each in Permission::ALL {
            let kept = matches!(each, Permission::Pty | Permission::UserRc);
            assert_eq!(left.permits(*each), kept, "{each:?}");
        }
    }
}
