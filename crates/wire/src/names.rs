//! Names of services, methods, requests and extensions. Names of ciphers, MACs, key exchanges and
//! signatures are in [`crate::algorithms`].
#![allow(missing_docs)]

pub const SERVICE_USERAUTH: &str = "ssh-userauth";
pub const SERVICE_CONNECTION: &str = "ssh-connection";

/// Pseudo-algorithms in the KEXINIT's list of key exchanges (RFC 8308 §2.1, OpenSSH PROTOCOL
/// §1.10).
pub const EXT_INFO_CLIENT: &str = "ext-info-c";
pub const EXT_INFO_SERVER: &str = "ext-info-s";
pub const STRICT_KEX_CLIENT: &str = "kex-strict-c-v00@openssh.com";
pub const STRICT_KEX_SERVER: &str = "kex-strict-s-v00@openssh.com";

/// The host key algorithm of a server without a host key, RFC 4462 §5.
pub const HOST_KEY_NULL: &str = "null";

/// Extensions carried by EXT_INFO.
pub const EXT_SERVER_SIG_ALGS: &str = "server-sig-algs";
pub const EXT_PING: &str = "ping@openssh.com";
pub const EXT_PUBLICKEY_HOSTBOUND: &str = "publickey-hostbound@openssh.com";
pub const EXT_AGENT_FORWARD: &str = "agent-forward";
pub const EXT_INFO_IN_AUTH: &str = "ext-info-in-auth@openssh.com";
/// Fulmar's extension (docs/PROTOCOL.md): the server accepts KEXINITs in short spelling …
pub const EXT_SHORT_KEXINIT: &str = "short-kexinit@fulmar.invalid";
/// … which the client marks by this language tag for private use (RFC 5646 §2.2.7).
pub const LANGUAGE_SHORT_KEXINIT: &str = "x-k1";

/// Fulmar's extension: the server opens channels of [`CHANNEL_TUN_SEGMENTS`].
pub const EXT_TUN_SEGMENTS: &str = "tun-segments@fulmar.invalid";

/// Fulmar's extension: number of bytes that may follow CHANNEL_OPEN before its answer (docs/PROTOCOL.md).
pub const EXT_EARLY_DATA: &str = "early-data@fulmar.invalid";
/// Requests are understood too before the answer to CHANNEL_OPEN (docs/PROTOCOL.md).
pub const EXT_EARLY_REQUESTS: &str = "early-requests@fulmar.invalid";
/// Fulmar's extension: [`REQUEST_RESET`] is understood.
pub const EXT_RESET: &str = "reset@fulmar.invalid";
/// Fulmar's extension: the server forwards datagrams in both directions (docs/PROTOCOL.md).
pub const EXT_UDP_FORWARD: &str = "udp-forward@fulmar.invalid";

pub const METHOD_NONE: &str = "none";
pub const METHOD_PUBLICKEY: &str = "publickey";
pub const METHOD_PUBLICKEY_HOSTBOUND: &str = "publickey-hostbound-v00@openssh.com";
pub const METHOD_HOSTBASED: &str = "hostbased";
pub const METHOD_GSSAPI_WITH_MIC: &str = "gssapi-with-mic";
pub const METHOD_GSSAPI_KEYEX: &str = "gssapi-keyex";
pub const METHOD_PASSWORD: &str = "password";
pub const METHOD_KEYBOARD_INTERACTIVE: &str = "keyboard-interactive";

pub const COMPRESSION_NONE: &str = "none";
pub const COMPRESSION_ZLIB_OPENSSH: &str = "zlib@openssh.com";
/// Fulmar's own method, under [`EXTENSION_DOMAIN`](crate::EXTENSION_DOMAIN): docs/PROTOCOL.md.
pub const COMPRESSION_ZSTD: &str = "zstd2@fulmar.invalid";

pub const CHANNEL_SESSION: &str = "session";
pub const CHANNEL_DIRECT_TCPIP: &str = "direct-tcpip";
pub const CHANNEL_FORWARDED_TCPIP: &str = "forwarded-tcpip";
pub const CHANNEL_DIRECT_STREAMLOCAL: &str = "direct-streamlocal@openssh.com";
pub const CHANNEL_FORWARDED_STREAMLOCAL: &str = "forwarded-streamlocal@openssh.com";
pub const CHANNEL_TUN: &str = "tun@openssh.com";
/// Fulmar's own type (docs/PROTOCOL.md).
pub const CHANNEL_TUN_SEGMENTS: &str = "tun-segments@fulmar.invalid";
/// Fulmar's own types for datagrams: to a target that the client names, and of a listener of the
/// server.
pub const CHANNEL_DIRECT_UDP: &str = "direct-udp@fulmar.invalid";
pub const CHANNEL_FORWARDED_UDP: &str = "forwarded-udp@fulmar.invalid";

/// Connections to the client's X server, RFC 4254 §6.3.2.
pub const CHANNEL_X11: &str = "x11";
/// Connections to the client's agent: OpenSSH's name, and the one of RFC 9987.
pub const CHANNEL_AGENT_OPENSSH: &str = "auth-agent@openssh.com";
pub const CHANNEL_AGENT: &str = "agent-connect";

pub const REQUEST_PTY: &str = "pty-req";
pub const REQUEST_ENV: &str = "env";
pub const REQUEST_SHELL: &str = "shell";
pub const REQUEST_EXEC: &str = "exec";
pub const REQUEST_SUBSYSTEM: &str = "subsystem";
pub const REQUEST_WINDOW_CHANGE: &str = "window-change";
pub const REQUEST_SIGNAL: &str = "signal";
pub const REQUEST_BREAK: &str = "break";
pub const REQUEST_EXIT_STATUS: &str = "exit-status";
pub const REQUEST_EXIT_SIGNAL: &str = "exit-signal";
pub const REQUEST_AGENT_OPENSSH: &str = "auth-agent-req@openssh.com";
pub const REQUEST_AGENT: &str = "agent-req";
/// RFC 4254 §6.3.1.
pub const REQUEST_X11: &str = "x11-req";
pub const REQUEST_EOW: &str = "eow@openssh.com";
/// Fulmar's own request: the connection that the channel carries was reset.
pub const REQUEST_RESET: &str = "reset@fulmar.invalid";
pub const REQUEST_XON_XOFF: &str = "xon-xoff";

pub const GLOBAL_HOSTKEYS: &str = "hostkeys-00@openssh.com";
pub const GLOBAL_HOSTKEYS_PROVE: &str = "hostkeys-prove-00@openssh.com";
pub const GLOBAL_NO_MORE_SESSIONS: &str = "no-more-sessions@openssh.com";
pub const GLOBAL_KEEPALIVE: &str = "keepalive@openssh.com";
pub const GLOBAL_TCPIP_FORWARD: &str = "tcpip-forward";
pub const GLOBAL_CANCEL_TCPIP_FORWARD: &str = "cancel-tcpip-forward";
pub const GLOBAL_STREAMLOCAL_FORWARD: &str = "streamlocal-forward@openssh.com";
pub const GLOBAL_CANCEL_STREAMLOCAL_FORWARD: &str = "cancel-streamlocal-forward@openssh.com";
/// Fulmar's own requests, which mean for UDP what `tcpip-forward` and its counterpart mean for TCP.
pub const GLOBAL_UDP_FORWARD: &str = "udp-forward@fulmar.invalid";
pub const GLOBAL_CANCEL_UDP_FORWARD: &str = "cancel-udp-forward@fulmar.invalid";
