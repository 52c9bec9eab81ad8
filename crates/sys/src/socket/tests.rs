use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

fn loopback() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
}

fn connected() -> (OwnedFd, OwnedFd) {
    let listener = listen(loopback(), 5, true, false).unwrap();
    let target = local_address(&listener).unwrap();
    let client = match connect_start(target, &ConnectFrom::default()).unwrap() {
        Connecting::Done(fd) => fd,
        Connecting::InProgress(fd) => {
            crate::io::wait_writable(&fd, None).unwrap();
            connect_finish(&fd).unwrap();
            fd
        }
    };
    crate::io::wait_readable(&listener, None).unwrap();
    let (server, peer) = accept(&listener).unwrap();
    assert_eq!(peer, local_address(&client).unwrap());
    (client, server)
}

#[test]
fn a_connection_is_nodelay_nonblocking_and_cloexec_on_both_ends() {
    let (client, server) = connected();
    for fd in [&client, &server] {
        assert!(sockopt::tcp_nodelay(fd).unwrap());
        assert!(crate::io::is_nonblocking(fd).unwrap());
        let flags = rustix::io::fcntl_getfd(fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert_eq!(
        peer_address(&client).unwrap(),
        local_address(&server).unwrap()
    );
}

#[test]
fn a_receive_window_is_widened_and_a_single_byte_still_wakes() {
    // At most half of the third value.
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
    let most: usize = limits.split_whitespace().nth(2).unwrap().parse().unwrap();
    let wanted = (1 << 20).min(most / 2);
    let (client, server) = connected();
    let room = |fd: &OwnedFd| sockopt::socket_recv_buffer_size(fd).unwrap();
    let before = room(&server);
    widen_receive_window(&server, u32::try_from(wanted).unwrap()).unwrap();
    assert!(room(&server) >= wanted.max(before), "{}", room(&server));
    // A smaller value does not shrink the window.
    let wide = room(&server);
    widen_receive_window(&server, 65_536).unwrap();
    assert_eq!(room(&server), wide);
    crate::io::write_all(&client, b"1").unwrap();
    crate::io::wait_readable(&server, None).unwrap();
    assert_eq!(crate::io::bytes_available(&server).unwrap(), 1);
}

#[test]
fn the_end_of_the_other_side_is_seen_behind_what_it_said() {
    let (client, server) = connected();
    assert!(!peer_has_ended(&server).unwrap());
    crate::io::write_all(&client, b"word").unwrap();
    crate::io::wait_readable(&server, None).unwrap();
    assert!(!peer_has_ended(&server).unwrap());
    drop(client);
    while !peer_has_ended(&server).unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(crate::io::bytes_available(&server).unwrap(), 4);
}

#[test]
fn accept_without_a_connection_would_block() {
    let listener = listen(loopback(), 5, true, false).unwrap();
    let error = accept(&listener).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_refused_connection_says_so() {
    // An address that no other test uses and that the kernel does not choose as a source address.
    let nobody = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), 0);
    let listener = listen(nobody, 1, false, false).unwrap();
    let target = local_address(&listener).unwrap();
    drop(listener);
    let refused = match connect_start(target, &ConnectFrom::default()) {
        Ok(Connecting::InProgress(fd)) => {
            crate::io::wait_writable(&fd, None).unwrap();
            connect_finish(&fd).unwrap_err()
        }
        Ok(Connecting::Done(_)) => panic!("connected to a closed port"),
        Err(error) => error,
    };
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn options_are_set() {
    let (client, server) = connected();
    set_quickack(&server, true).unwrap();
    set_keepalive(&client, true).unwrap();
    assert!(sockopt::socket_keepalive(&client).unwrap());
    set_tos(&client, 0x10).unwrap();
    assert_eq!(sockopt::ip_tos(&client).unwrap(), 0x10);
    set_notsent_lowat(&client, 128 * 1024).unwrap();
    options::set_user_timeout(&client, std::time::Duration::from_secs(30)).unwrap();
    let info = tcp_info(&client).unwrap();
    assert!(info.rtt_us > 0);
    assert_eq!(unacked_bytes(&client).unwrap(), 0);
    reset_on_close(&server).unwrap();
    drop(server);
    crate::io::wait_readable(&client, None).unwrap();
    let error = crate::io::read(&client, &mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn the_type_of_service_reaches_a_v6_socket() {
    let Ok(listener) = listen(
        SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0),
        1,
        true,
        true,
    ) else {
        eprintln!("skipped: no IPv6 here");
        return;
    };
    set_tos(&listener, 0x08).unwrap();
    assert_eq!(sockopt::ipv6_tclass(&listener).unwrap(), 0x08);
    assert!(sockopt::ipv6_v6only(&listener).unwrap());
}

#[test]
fn the_source_address_is_bound_and_must_match_the_family() {
    let listener = listen(loopback(), 1, true, false).unwrap();
    let target = local_address(&listener).unwrap();
    let from = ConnectFrom {
        address: Some(Ipv4Addr::new(127, 0, 0, 9).into()),
        interface: None,
        multipath: false,
        fast_open: false,
    };
    let (Connecting::Done(fd) | Connecting::InProgress(fd)) = connect_start(target, &from).unwrap();
    assert_eq!(
        local_address(&fd).unwrap().ip(),
        IpAddr::from([127, 0, 0, 9])
    );
    let from = ConnectFrom {
        address: Some(Ipv6Addr::LOCALHOST.into()),
        interface: None,
        multipath: false,
        fast_open: false,
    };
    assert!(connect_start(target, &from).is_err());
    let from = ConnectFrom {
        address: None,
        interface: Some("an-interface-name-too-long".into()),
        multipath: false,
        fast_open: false,
    };
    assert!(connect_start(target, &from).is_err());
}

#[test]
fn multipath_tcp_connects_to_both_kinds_of_listener_and_falls_back() {
    let from = ConnectFrom {
        multipath: true,
        ..ConnectFrom::default()
    };
    let listeners = [
        listen(loopback(), 1, true, false).unwrap(),
        listen_multipath(loopback(), 1, true, false).unwrap(),
    ];
    assert!(!is_multipath(&listeners[0]));
    for listener in listeners {
        let target = local_address(&listener).unwrap();
        let (Connecting::Done(fd) | Connecting::InProgress(fd)) =
            connect_start(target, &from).unwrap();
        crate::io::wait_writable(&fd, None).unwrap();
        connect_finish(&fd).unwrap();
        crate::io::wait_readable(&listener, None).unwrap();
        let (server, peer) = accept(&listener).unwrap();
        assert_eq!(peer, local_address(&fd).unwrap());
        crate::io::write(&fd, b"hello").unwrap();
        crate::io::wait_readable(&server, None).unwrap();
        let mut room = [0; 8];
        assert_eq!(crate::io::read(&server, &mut room).unwrap(), 5);
        tcp_info(&server).unwrap();
    }
}

#[test]
fn mapped_addresses_become_plain_v4() {
    let mapped: SocketAddr = "[::ffff:192.0.2.7]:22".parse().unwrap();
    assert_eq!(unmapped(mapped), "192.0.2.7:22".parse().unwrap());
    let v6: SocketAddr = "[2001:db8::1]:22".parse().unwrap();
    assert_eq!(unmapped(v6), v6);
}

#[test]
fn descriptors_travel_with_a_message() {
    let (left, right) = seqpacket_pair().unwrap();
    let (reader, writer) = crate::io::pipe().unwrap();
    let sent = send_with_fds(&left, b"take this", &[writer.as_fd()]).unwrap();
    assert_eq!(sent, 9);
    drop(writer);
    let mut buffer = [0; 64];
    let received = recv_with_fds(&right, &mut buffer, 1).unwrap();
    assert_eq!(&buffer[..received.len], b"take this");
    assert_eq!(received.fds.len(), 1);
    let flags = rustix::io::fcntl_getfd(&received.fds[0]).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    crate::io::write_all(&received.fds[0], b"hi").unwrap();
    assert_eq!(crate::io::read(&reader, &mut buffer).unwrap(), 2);
}

#[test]
fn more_descriptors_than_allowed_are_closed_and_refused() {
    let (left, right) = seqpacket_pair().unwrap();
    let (reader, writer) = crate::io::pipe().unwrap();
    send_with_fds(&left, b"x", &[writer.as_fd(), writer.as_fd()]).unwrap();
    drop(writer);
    let mut buffer = [0; 64];
    let error = recv_with_fds(&right, &mut buffer, 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    // Both copies are closed: the pipe has no writer left.
    assert_eq!(crate::io::read(&reader, &mut buffer).unwrap(), 0);
    let many = [reader.as_fd(); MAX_FDS + 1];
    assert!(send_with_fds(&left, b"x", &many).is_err());
    assert!(send_with_fds(&left, b"", &many[..1]).is_err());
}

#[test]
fn a_message_longer_than_the_buffer_is_refused() {
    let (left, right) = seqpacket_pair().unwrap();
    send_with_fds(&left, &[7; 100], &[]).unwrap();
    assert!(recv_with_fds(&right, &mut [0; 99], 0).is_err());
    drop(left);
    assert_eq!(recv_with_fds(&right, &mut [0; 99], 0).unwrap().len, 0);
}

#[test]
fn sending_to_a_closed_peer_is_an_error_not_a_signal() {
    let (left, right) = stream_pair().unwrap();
    drop(right);
    let error = send_with_fds(&left, b"x", &[]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn peer_credentials_are_ours_on_our_own_pair() {
    let (left, _right) = stream_pair().unwrap();
    let peer = peer_credentials(&left).unwrap();
    assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    assert_eq!(peer.pid, rustix::process::getpid().as_raw_nonzero().get());
    assert!(is_socket(&left));
    assert!(!is_socket(crate::io::null().unwrap()));
    assert!(local_address(&left).is_err());
}

#[test]
fn literal_addresses_need_no_resolver() {
    assert_eq!(
        resolve::literal("192.0.2.1", 22),
        Some("192.0.2.1:22".parse().unwrap())
    );
    assert_eq!(
        resolve::literal("::1", 2222),
        Some("[::1]:2222".parse().unwrap())
    );
    assert_eq!(resolve::literal("localhost", 22), None);
    assert_eq!(resolve::literal("fe80::1%", 22), None);
}

#[test]
fn localhost_resolves_and_the_family_filter_holds() {
    let found = resolve("localhost", 22, Family::V4, true).unwrap();
    assert!(found.addresses.contains(&"127.0.0.1:22".parse().unwrap()));
    assert!(found.addresses.iter().all(SocketAddr::is_ipv4));
    assert!(found.canonical_name.is_some());
    assert!(resolve("127.0.0.1", 22, Family::V6, false).is_err());
    assert!(matches!(
        resolve("a\0b", 22, Family::Any, false),
        Err(ResolveError::BadName)
    ));
}

/// Gives this thread its own network namespace, with TCP Fast Open for clients and servers.
fn network_with_fast_open() -> io::Result<()> {
    crate::namespace::unshare_network()?;
    crate::tun::bring_up("lo")?;
    std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3")
}

/// True if 1000 bytes written to a new connection arrive with its SYN, as the kernel reports at
/// both ends.
fn arrives_with_syn(listener: &OwnedFd) -> bool {
    let from = ConnectFrom {
        fast_open: true,
        ..ConnectFrom::default()
    };
    let target = local_address(listener).unwrap();
    let client = match connect_start(target, &from).unwrap() {
        Connecting::Done(client) => client,
        Connecting::InProgress(client) => {
            crate::io::wait_writable(&client, None).unwrap();
            connect_finish(&client).unwrap();
            client
        }
    };
    assert_eq!(rustix::io::write(&client, &[7; 1000]).unwrap(), 1000);
    crate::io::wait_readable(listener, None).unwrap();
    let (server, _) = accept(listener).unwrap();
    crate::io::wait_readable(&server, None).unwrap();
    assert_eq!(rustix::io::read(&server, &mut [0; 2000]).unwrap(), 1000);
    // The client's end knows this once its SYN is answered.
    rustix::io::write(&server, &[8]).unwrap();
    crate::io::wait_readable(&client, None).unwrap();
    let theirs = tcp_info(&server).unwrap().syn_data;
    assert_eq!(tcp_info(&client).unwrap().syn_data, theirs);
    theirs
}

/// Data arrives with the SYN only with the cookie of an earlier connection; without it, and to a
/// listener without Fast Open, connections are established normally.
#[test]
fn fast_open_takes_the_first_bytes_with_the_syn() {
    let thread = std::thread::spawn(|| {
        if let Err(error) = network_with_fast_open() {
            eprintln!("skipped: a network of its own cannot be had: {error}");
            return;
        }
        let listener = listen(loopback(), 4, true, false).unwrap();
        assert!(!arrives_with_syn(&listener) && !arrives_with_syn(&listener));
        set_fastopen_queue(&listener, 4).unwrap();
        assert!(!arrives_with_syn(&listener), "no cookie was there yet");
        assert!(arrives_with_syn(&listener) && arrives_with_syn(&listener));
    });
    thread.join().unwrap();
}
