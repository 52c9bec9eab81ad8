//! Messages between the master of a shared connection and its passengers.

use client::sharing::message::{
    ForwardWish, MasterFacts, MasterReply, PassengerRequest, SessionWish, Wish,
};
use config::forward::{ForwardKind, ForwardSpec};

/// A message of either side, without its length.
///
/// # Panics
/// Only for a defect.
pub fn mux_message(data: &[u8]) {
    if let Ok(request) = PassengerRequest::decode(data) {
        let again = PassengerRequest::decode(body(&request.packet()));
        assert_eq!(again.as_ref(), Ok(&request));
        if let PassengerRequest::Wish(_, Wish::OpenForward(wish) | Wish::CloseForward(wish)) =
            &request
            && let Some((kind, spec)) = wish.spec()
        {
            let again = ForwardWish::new(kind, &spec).and_then(|wish| wish.spec());
            assert_eq!(again, Some((kind, spec)));
        }
    }
    if let Ok(reply) = MasterReply::decode(data) {
        assert_eq!(MasterReply::decode(body(&reply.packet())), Ok(reply));
    }
}

fn body(packet: &[u8]) -> &[u8] {
    packet.get(4..).expect("a length")
}

/// A message of each type.
#[must_use]
pub fn message_seeds() -> Vec<Vec<u8>> {
    let forward = |kind, words| {
        let spec = ForwardSpec::parse(words, kind).expect("a forwarding");
        ForwardWish::new(kind, &spec).expect("no datagrams")
    };
    let session = SessionWish {
        tty: true,
        x11: false,
        agent: true,
        subsystem: false,
        escape: Some(b'~'),
        term: b"xterm".to_vec(),
        command: b"true".to_vec(),
        environment: vec![b"LANG=C".to_vec()],
    };
    let wishes = [
        Wish::Alive,
        Wish::Session(session),
        Wish::StdioForward {
            host: b"host".to_vec(),
            port: Some(22),
        },
        Wish::StdioForward {
            host: b"/run/socket".to_vec(),
            port: None,
        },
        Wish::OpenForward(forward(ForwardKind::Local, "127.0.0.1:1:host:2")),
        Wish::OpenForward(forward(ForwardKind::Remote, "*:0:/run/socket")),
        Wish::CloseForward(forward(ForwardKind::Dynamic, "1080")),
        Wish::Terminate,
        Wish::StopListening,
        Wish::Proxy,
        Wish::Info(b"connection".to_vec()),
        Wish::Unknown(0x1000_0010),
    ];
    let requests = wishes
        .into_iter()
        .map(|wish| PassengerRequest::Wish(7, wish));
    let requests = requests.chain([PassengerRequest::Hello(4)]);
    let replies = [
        MasterReply::Hello {
            version: 4,
            master: MasterFacts {
                has_info: true,
                server_version: Some("SSH-2.0-OpenSSH_9.2p1".into()),
            },
        },
        MasterReply::Proxy(7),
        MasterReply::Info(7, true, "tcp".into()),
        MasterReply::Ok(7),
        MasterReply::Denied(7, "Permission denied".into()),
        MasterReply::Failed(7, "refused".into()),
        MasterReply::Alive(7, 1),
        MasterReply::Opened(7, 0),
        MasterReply::RemotePort(7, 8080),
        MasterReply::Exit(0, 1),
        MasterReply::NoTerminal(0),
    ];
    let packets = requests.map(|request| request.packet());
    let packets = packets.chain(replies.iter().map(MasterReply::packet));
    packets.map(|packet| body(&packet).to_vec()).collect()
}
