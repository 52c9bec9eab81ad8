//! Forwarded connections whose peers or targets do not do what is usual.

use std::os::unix::net::{UnixListener, UnixStream};

use driver::Notice;
use driver::forward::{FirstPacketStep, ForwardSettings, ForwardTarget, Forwards};
use proto::{ChannelId, Event, Stream, TransportConfig};
use sys::socket::Family;

use crate::joined::{End, joined};

/// Two ends; the second one forwards.
struct Place {
    client: End,
    server: End,
    forwards: Forwards,
    channel: ChannelId,
}

impl Place {
    /// The client has opened a channel, which `connect` answers.
    fn new(connect: impl FnOnce(&mut Forwards, ChannelId, &mut End)) -> Self {
        Self::of("x", connect)
    }

    /// The same, with a channel of this type.
    fn of(kind: &str, connect: impl FnOnce(&mut Forwards, ChannelId, &mut End)) -> Self {
        let (mut client, mut server, _) = joined(&TransportConfig::default(), 0);
        let mut forwards = Forwards::new(ForwardSettings {
            keep_alive: false,
            family: Family::Any,
            permits: Box::new(|_| true),
        });
        let connection = client.driver.connection();
        let channel = connection.open_channel(kind, b"").expect("a channel");
        let asked = loop {
            client.step();
            let opened = server.step().into_iter().find_map(|notice| match notice {
                Notice::Event(Event::ChannelOpenRequest { channel, .. }) => Some(channel),
                _ => None,
            });
            if let Some(channel) = opened {
                break channel;
            }
        };
        connect(&mut forwards, asked, &mut server);
        Self {
            client,
            server,
            forwards,
            channel,
        }
    }

    /// One turn of both ends; the client's events.
    fn turn(&mut self) -> Vec<Event> {
        for notice in self.server.step() {
            self.forwards.handle(notice, &mut self.server.driver);
        }
        let notices = self.client.step().into_iter();
        notices
            .filter_map(|notice| match notice {
                Notice::Event(event) => Some(event),
                _ => None,
            })
            .collect()
    }

    fn until(&mut self, mut is_it: impl FnMut(&Event) -> bool) {
        while !self.turn().iter().any(&mut is_it) {}
    }
}

/// An agent that is busy has a full queue for a moment; OpenSSH waits for it.
#[test]
fn a_unix_socket_whose_queue_is_full_is_tried_again() {
    let folder = std::env::temp_dir().join(format!("fulmar-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    // Its queue takes one connection.
    let listener = UnixListener::from(sys::socket::listen_unix(&path, 0, 0o177).unwrap());
    let first = UnixStream::connect(&path).unwrap();
    let target = ForwardTarget::Unix(path);
    let mut place = Place::new(|forwards, channel, server| {
        forwards.connect(channel, target, None, &mut server.driver);
    });
    for _ in 0..20 {
        let events = place.turn();
        assert!(events.is_empty(), "{events:?}");
    }
    drop((listener.accept().unwrap(), first));
    place.until(|event| matches!(event, Event::ChannelOpened(_)));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A program that connects to a display and leaves, as a port scanner does.
#[test]
fn a_first_packet_or_socks_request_that_stays_incomplete_ends_its_channel() {
    for is_socks in [false, true] {
        for sent in [&b""[..], b"\x05"] {
            let mut place = Place::new(|forwards, channel, server| {
                let driver = &mut server.driver;
                if is_socks {
                    return forwards.serve_socks(channel, None, driver);
                }
                let target = ForwardTarget::Unix("/nonexistent/x".into());
                let first = Box::new(|_: &mut [u8]| FirstPacketStep::More);
                forwards.connect_checked(channel, target, first, driver);
            });
            place.until(|event| matches!(event, Event::ChannelOpened(_)));
            let channel = place.channel;
            let connection = place.client.driver.connection();
            connection
                .channel_send_slice(channel, Stream::Data, sent)
                .unwrap();
            connection.channel_eof(channel).unwrap();
            place.until(|event| matches!(event, Event::ChannelClosed(_)));
            while place.forwards.has_connections() {
                place.turn();
            }
        }
    }
}

#[test]
fn channels_to_an_agent_are_not_bulk_whatever_their_name() {
    for (kind, wanted) in [
        ("agent-connect", None),
        ("auth-agent@openssh.com", None),
        ("direct-tcpip", Some(false)),
    ] {
        let mut place = Place::of(kind, |forwards, channel, server| {
            forwards.serve_socks(channel, None, &mut server.driver);
        });
        place.until(|event| matches!(event, Event::ChannelOpened(_)));
        let connection = place.client.driver.connection();
        assert_eq!(
            driver::is_interactive(connection, |_| true),
            wanted,
            "{kind}"
        );
    }
}
