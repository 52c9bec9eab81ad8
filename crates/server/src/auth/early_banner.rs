//! The early banner: version line and KEXINIT, which the listener sends to each new connection
//! before it has a process. An auth process continues from there.

use config::server::ServerOptions;
use privsep::HostKey;
use proto::{Connection, TransportOutput};

use crate::transport;

/// Makes the first bytes (version line and KEXINIT) that an auth process would send with these
/// options (encoded by [`ServerOptions::encode_for_auth`]), host keys and cookie. They do not
/// depend on the client. Returns `None` if the options make no connection; an auth process that is
/// started with them reports the reason.
#[must_use]
pub fn greeting(options: &[u8], host_keys: &[HostKey], cookie: [u8; 16]) -> Option<Vec<u8>> {
    let mut options = ServerOptions::decode_to_read(options).ok()?;
    let mut config = transport::config(&mut options);
    config.opening.cookie = Some(cookie);
    let mut connection = Connection::server(config, transport::host_keys(host_keys), 0).ok()?;
    let mut bytes = Vec::new();
    while let Some(output) = connection.poll_output() {
        match output {
            TransportOutput::Raw(line) => bytes.extend_from_slice(&line),
            TransportOutput::Seal(job) => bytes.extend_from_slice(job.run().wire()),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_openssh_first_if_configured() {
        let config = config::server::ServerConfig::parse(
            "none",
            b"VersionNamesOpenSSH yes\nVersionAddendum here",
            &config::SystemFiles::default(),
            &config::server::ServerArguments::default(),
        )
        .unwrap();
        let key = keys::PrivateKey::from_ed25519_seed(&[7; 32]);
        let host_keys = [HostKey {
            index: 0,
            blob: key.public().blob(),
            algorithms: vec!["ssh-ed25519".to_owned()],
        }];
        let options = config.global().encode_for_auth();
        let all = greeting(&options, &host_keys, [1; 16]).unwrap();
        let line = all.split(|byte| *byte == b'\n').next().unwrap();
        let line = String::from_utf8_lossy(line).into_owned();
        assert!(line.starts_with("SSH-2.0-OpenSSH_10.6 Fulmar_"), "{line}");
        assert!(line.ends_with(" here\r"), "{line}");
        assert!(proto::Quirks::of(line.trim_end()).is_fulmar);
    }

    #[test]
    fn it_is_what_each_connection_begins_with_but_for_the_cookie() {
        let config = config::server::ServerConfig::parse(
            "none",
            b"Ciphers aes128-ctr,aes256-gcm@openssh.com\nVersionAddendum here",
            &config::SystemFiles::default(),
            &config::server::ServerArguments::default(),
        )
        .unwrap();
        let options = config.global().encode_for_auth();
        let key = keys::PrivateKey::from_ed25519_seed(&[7; 32]);
        let host_keys = [HostKey {
            index: 0,
            blob: key.public().blob(),
            algorithms: vec!["ssh-ed25519".to_owned()],
        }];
        let of = |cookie| greeting(&options, &host_keys, cookie).unwrap();
        let (one, other) = (of([1; 16]), of([2; 16]));
        let line_end = one.iter().position(|byte| *byte == b'\n').unwrap();
        assert!(one.starts_with(b"SSH-2.0-Fulmar_") && one[..line_end].ends_with(b" here\r"));
        // Packet length, padding length, message number.
        let cookie_at = line_end + 1 + 6;
        assert_eq!(one[cookie_at - 1], 20);
        assert_eq!(one[cookie_at..cookie_at + 16], [1; 16]);
        assert_eq!(other[cookie_at..cookie_at + 16], [2; 16]);
        assert_eq!(one[..cookie_at], other[..cookie_at]);
        let names = b"aes128-ctr,aes256-gcm@openssh.com";
        assert_eq!(
            one.windows(names.len())
                .filter(|part| part == names)
                .count(),
            2
        );
        assert!(greeting(&options, &[], [1; 16]).is_none());
        assert!(greeting(b"damaged", &host_keys, [1; 16]).is_none());
    }
}
