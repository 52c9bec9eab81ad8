//! Name resolution: `getaddrinfo` with a family filter, the canonical name and all addresses;
//! `getnameinfo` confirmed by a forward lookup (`UseDNS`).
//!
//! These calls load NSS modules: do not call them in a sandboxed process, and on a server only if
//! `UseDNS` is on.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::ffi::{c_string, copy_c_str, socklen_of};

/// Limit on the addresses kept of one answer, which comes from outside.
const MAX_ADDRESSES: usize = 64;
/// Longest name accepted from an answer, in bytes (DNS: 255).
const MAX_NAME_LEN: usize = 1024;

/// Address families to look up (`AddressFamily`, `-4`, `-6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Family {
    /// Both, in the system's order of preference.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// Result of a name lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The addresses, in the system's order of preference (RFC 6724), without duplicates.
    pub addresses: Vec<SocketAddr>,
    /// The canonical name, if requested and known.
    pub canonical_name: Option<String>,
}

/// Why a name could not be resolved.
#[derive(Debug)]
pub enum ResolveError {
    /// The name contains a NUL byte.
    BadName,
    /// The resolver returned an error; the text is the resolver's.
    Resolver(String),
    /// A system call of the resolver failed.
    System(io::Error),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName => f.write_str("host name holds a NUL byte"),
            Self::Resolver(text) => f.write_str(text),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Resolves `host` (a name or a literal address) for TCP. With `canonical` it also looks up the
/// canonical name (one more query on some systems).
///
/// # Errors
/// [`ResolveError`]; the call blocks as long as the resolver does.
pub fn resolve(
    host: &str,
    port: u16,
    family: Family,
    canonical: bool,
) -> Result<Resolved, ResolveError> {
    let flags = if canonical { libc::AI_CANONNAME } else { 0 };
    lookup(host, port, family, flags)
}

/// Converts a literal address (v4, v6, v6 with `%scope`) to a socket address without a name lookup;
/// `None` for anything else.
#[must_use]
pub fn literal(host: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, port));
    }
    let (_, scope) = host.split_once('%')?;
    if scope.is_empty() {
        return None;
    }
    let found = lookup(host, port, Family::V6, libc::AI_NUMERICHOST).ok()?;
    found.addresses.first().copied()
}

/// Result list of `getaddrinfo`, freed on drop.
struct AddrInfoList(*mut libc::addrinfo);

impl Drop for AddrInfoList {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the list came from getaddrinfo and is freed once.
            unsafe { libc::freeaddrinfo(self.0) };
        }
    }
}

fn lookup(host: &str, port: u16, family: Family, flags: i32) -> Result<Resolved, ResolveError> {
    let host = c_string(host).map_err(|_| ResolveError::BadName)?;
    // SAFETY: addrinfo is a plain C struct: all zeroes (null pointers) is valid.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_family = match family {
        Family::Any => libc::AF_UNSPEC,
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_flags = flags;
    let mut answer = AddrInfoList(std::ptr::null_mut());
    crate::signals::mark_altered_by_others();
    // SAFETY: host is terminated, hints and the out-pointer are live locals.
    let code = unsafe {
        libc::getaddrinfo(
            host.as_ptr(),
            std::ptr::null(),
            &raw const hints,
            &raw mut answer.0,
        )
    };
    if code != 0 {
        return Err(resolver_error(code));
    }
    let mut resolved = Resolved {
        addresses: Vec::new(),
        canonical_name: None,
    };
    let mut next = answer.0;
    while !next.is_null() && resolved.addresses.len() < MAX_ADDRESSES {
        // SAFETY: a non-null node of the list that getaddrinfo made and `answer` keeps.
        let node = unsafe { &*next };
        if resolved.canonical_name.is_none() {
            // SAFETY: ai_canonname is null or a terminated string of the same list.
            let name = unsafe { copy_c_str(node.ai_canonname, MAX_NAME_LEN) };
            resolved.canonical_name = name.and_then(|name| String::from_utf8(name).ok());
        }
        // SAFETY: ai_addr points to ai_addrlen bytes of the same list.
        if let Some(address) = unsafe { socket_address(node.ai_addr, node.ai_addrlen, port) }
            && !resolved.addresses.contains(&address)
        {
            resolved.addresses.push(address);
        }
        next = node.ai_next;
    }
    if resolved.addresses.is_empty() {
        return Err(ResolveError::Resolver("no address of this family".into()));
    }
    Ok(resolved)
}

fn resolver_error(code: i32) -> ResolveError {
    if code == libc::EAI_SYSTEM {
        return ResolveError::System(io::Error::last_os_error());
    }
    // SAFETY: gai_strerror returns a static terminated string for any code.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    ResolveError::Resolver(text.to_string_lossy().into_owned())
}

/// # Safety
/// `address` is null or points to `len` readable bytes.
unsafe fn socket_address(
    address: *const libc::sockaddr,
    len: libc::socklen_t,
    port: u16,
) -> Option<SocketAddr> {
    if address.is_null() || len < socklen_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: not null and at least as long as the family field.
    let family = i32::from(unsafe { (*address).sa_family });
    if family == libc::AF_INET && len >= socklen_of::<libc::sockaddr_in>() {
        // SAFETY: long enough; read_unaligned needs no alignment.
        let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
        let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
        return Some(SocketAddr::new(IpAddr::V4(ip), port));
    }
    if family == libc::AF_INET6 && len >= socklen_of::<libc::sockaddr_in6>() {
        // SAFETY: long enough; read_unaligned needs no alignment.
        let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
        let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
        let v6 = SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id);
        return Some(SocketAddr::V6(v6));
    }
    None
}

/// Name of this machine, as `%l` and `%L` expand to.
#[must_use]
pub fn host_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

/// Unconfirmed name of an address by reverse lookup; `None` if it has none.
#[must_use]
pub fn reverse_name(address: IpAddr) -> Option<String> {
    let mut name = [0; MAX_NAME_LEN];
    let len = libc::socklen_t::try_from(name.len()).unwrap_or(0);
    crate::signals::mark_altered_by_others();
    let code = match address {
        IpAddr::V4(ip) => {
            // SAFETY: sockaddr_in is a plain C struct: all zeroes is valid.
            let mut v4: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            v4.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0);
            v4.sin_addr.s_addr = u32::from(ip).to_be();
            // SAFETY: the address and its length describe a live local, the buffer
            // and its length another.
            unsafe {
                libc::getnameinfo(
                    (&raw const v4).cast(),
                    socklen_of::<libc::sockaddr_in>(),
                    name.as_mut_ptr(),
                    len,
                    std::ptr::null_mut(),
                    0,
                    libc::NI_NAMEREQD,
                )
            }
        }
        IpAddr::V6(ip) => {
            // SAFETY: sockaddr_in6 is a plain C struct: all zeroes is valid.
            let mut v6: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            v6.sin6_family = libc::sa_family_t::try_from(libc::AF_INET6).unwrap_or(0);
            v6.sin6_addr.s6_addr = ip.octets();
            // SAFETY: as for v4.
            unsafe {
                libc::getnameinfo(
                    (&raw const v6).cast(),
                    socklen_of::<libc::sockaddr_in6>(),
                    name.as_mut_ptr(),
                    len,
                    std::ptr::null_mut(),
                    0,
                    libc::NI_NAMEREQD,
                )
            }
        }
    };
    if code != 0 {
        return None;
    }
    // SAFETY: on success the buffer holds a terminated string.
    let name = unsafe { copy_c_str(name.as_ptr(), MAX_NAME_LEN) }?;
    String::from_utf8(name).ok()
}

/// Name of an address for `UseDNS`: only a name that resolves back to the address, consists of
/// host-name characters, and is not itself a literal address (a forged reverse zone must not match
/// rules written for names).
#[must_use]
pub fn reverse_confirmed(address: IpAddr) -> Option<String> {
    let name = reverse_name(address)?.to_ascii_lowercase();
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if !is_name || name.is_empty() || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let family = if address.is_ipv4() {
        Family::V4
    } else {
        Family::V6
    };
    let forward = resolve(&name, 0, family, false).ok()?;
    let confirmed = forward.addresses.iter().any(|found| found.ip() == address);
    confirmed.then_some(name)
}
