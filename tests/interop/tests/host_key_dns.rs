//! Host keys in the DNS (VerifyHostKeyDNS): our client and OpenSSH's ask dnsmasq, in a network and a
//! mount namespace of their own, so that it is the resolver of resolv.conf. Needs root.

use std::fs;
use std::process::Command;

use interop::account::Guest;
use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome, command_line, installed};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::finish;

const NAME: &str = "sshfp.test";

/// Starts the resolver and the server, and runs the client.
const SCRIPT: &str = r#"
mount --make-rprivate / || exit 90
ip link set lo up && ip addr add 192.0.2.53/32 dev lo || exit 91
mount --bind "$DIR/resolv.conf" /etc/resolv.conf || exit 92
dnsmasq -k -C /dev/null --no-resolv --no-hosts --user=root --port=5353 \
    --address=/sshfp.test/127.0.0.1 $RECORDS --pid-file="$DIR/dns.pid" 2>"$DIR/dns.log" &
dns=$!
python3 -c "$VALIDATOR" >"$DIR/validator.log" 2>&1 &
validator=$!
$SSHD -D -e -f "$DIR/sshd_config" 2>"$DIR/sshd.log" &
sshd=$!
tries=0
until grep -q "Server listening" "$DIR/sshd.log" && [ -s "$DIR/dns.pid" ] \
    && grep -q ready "$DIR/validator.log"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || exit 93
    sleep 0.1
done
$SSH -F "$DIR/client" "$@" sshfp.test 'echo logged in'
status=$?
kill $sshd $dns $validator
wait
exit $status
"#;

/// Passes queries to dnsmasq, and sets bit AD in the answers, as a resolver does that has validated
/// them: dnsmasq itself sets it in no answer of its own.
const VALIDATOR: &str = r#"
import socket, socketserver, struct, threading
def valid(answer):
    return answer[:3] + bytes([answer[3] | 0x20]) + answer[4:]
def whole(stream, count):
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        query, back = self.request
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as up:
            up.sendto(query, ("127.0.0.1", 5353))
            back.sendto(valid(up.recv(65535)), self.client_address)
class Tcp(socketserver.BaseRequestHandler):
    def handle(self):
        length = whole(self.request, 2)
        query = whole(self.request, *struct.unpack("!H", length))
        with socket.create_connection(("127.0.0.1", 5353)) as up:
            up.sendall(length + query)
            length = whole(up, 2)
            answer = valid(whole(up, *struct.unpack("!H", length)))
        self.request.sendall(length + answer)
for address in "192.0.2.53", "127.0.0.1":
    for server in socketserver.ThreadingUDPServer((address, 53), Udp), socketserver.ThreadingTCPServer((address, 53), Tcp):
        threading.Thread(target=server.serve_forever).start()
print("ready", flush=True)
"#;

/// A server in a directory of its own.
struct Place {
    scratch: Scratch,
    guest: Guest,
    /// The records of its key, in the form that dnsmasq takes.
    records: Vec<String>,
}

impl Place {
    fn new() -> Option<Self> {
        let guest = match Guest::new() {
            Ok(guest) => guest,
            Err(why) => {
                skipped("host_key_dns", &why);
                return None;
            }
        };
        let needs = ["unshare", "ip", "dnsmasq", "python3"];
        if let Some(missing) = needs.iter().find(|name| installed(name).is_none()) {
            skipped("host_key_dns", missing);
            return None;
        }
        let scratch = Scratch::new();
        let key = scratch.join("host");
        let path = key.to_string_lossy().into_owned();
        fixture::run_keygen(&["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &path]).unwrap();
        let records = fixture::run_keygen(&["-r", NAME, "-g", "-f", &path]).unwrap();
        let user = scratch.join("user");
        let user = user.to_string_lossy().into_owned();
        fixture::run_keygen(&["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &user]).unwrap();
        let line = fs::read_to_string(scratch.join("user.pub")).unwrap();
        guest.write(".ssh/authorized_keys", line, 0o600);
        scratch.write(
            "sshd_config",
            format!(
                "ListenAddress 127.0.0.1:2222\nHostKey {path}\nStrictModes no\nPidFile none\n\
                 UsePAM no\n"
            ),
        );
        // `NAME IN TYPE44 \# LENGTH HEX HEX...`
        let data = |line: &str| line.split_whitespace().skip(5).collect::<String>();
        Some(Self {
            records: records.lines().map(data).collect(),
            scratch,
            guest,
        })
    }

    /// Connects with these records and this resolv.conf; nobody answers questions.
    fn connect(&self, client: Kind, resolv: &str, records: &[String], verify: &str) -> Outcome {
        let scratch = &self.scratch;
        scratch.write("resolv.conf", resolv);
        let _ = fs::remove_file(scratch.join("dns.pid"));
        let _ = fs::remove_file(scratch.join("sshd.log"));
        let _ = fs::remove_file(scratch.join("validator.log"));
        scratch.write(
            "client",
            format!(
                "Port 2222\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\n\
                 PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 UserKnownHostsFile {}\nGlobalKnownHostsFile none\nVerifyHostKeyDNS {verify}\n",
                self.guest.name,
                scratch.join("user").display(),
                scratch.join("known").display(),
            ),
        );
        let _ = fs::remove_file(scratch.join("known"));
        // The question about a new key is answered with no, and printed.
        let askpass = scratch.write("askpass", "#!/bin/sh\nprintf '%s\\n' \"$1\" >&2\necho no\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&askpass, mode).unwrap();
        let record = |data: &String| format!("--dns-rr={NAME},44,{data}");
        let records: Vec<String> = records.iter().map(record).collect();
        let mut command = Command::new("unshare");
        command
            .args(["-m", "-n", "sh", "-c", SCRIPT, "sh", "-v"])
            .env("DIR", scratch.path())
            .env("VALIDATOR", VALIDATOR)
            .env("RECORDS", records.join(" "))
            .env("SSH", command_line(&client.ssh().unwrap()))
            .env("SSHD", command_line(&Kind::tested().sshd().unwrap()))
            .env("SSH_ASKPASS", askpass)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let outcome = finish(&mut command, Input::Nothing);
        assert!(
            !(90..100).contains(&outcome.status),
            "{}",
            outcome.summary()
        );
        outcome
    }
}

fn assert_says(outcome: &Outcome, text: &str) {
    let said = outcome.stderr.text();
    assert!(said.contains(text), "{text}: {said}");
}

fn clients() -> Vec<Kind> {
    let mut clients = vec![Kind::tested()];
    if Kind::tested() == Kind::Fulmar && installed("ssh").is_some() {
        clients.push(Kind::OpenSsh);
    }
    clients
}

/// The resolver at an address that is not this machine's own.
const REMOTE: &str = "nameserver 192.0.2.53\n";
const TRUSTED: &str = "nameserver 192.0.2.53\noptions trust-ad edns0\n";
const MATCHING: &str = "Matching host key fingerprint found in DNS.";

#[test]
fn a_validated_fingerprint_is_accepted_and_another_answer_is_asked_about() {
    let Some(place) = Place::new() else { return };
    let right = &place.records;
    let wrong = vec![format!("0402{}", "ab".repeat(32))];
    for client in clients() {
        let outcome = place.connect(client, TRUSTED, right, "yes");
        outcome.assert_shows("logged in");
        assert_eq!(outcome.status, 0, "{client:?} {}", outcome.summary());
        for (resolv, records, verify, said) in [
            (REMOTE, right, "yes", MATCHING),
            (TRUSTED, right, "ask", MATCHING),
            (TRUSTED, &wrong, "yes", "Update the SSHFP RR in DNS"),
            (
                TRUSTED,
                &wrong,
                "yes",
                "No matching host key fingerprint found in DNS.",
            ),
            (
                TRUSTED,
                &Vec::new(),
                "yes",
                "No matching host key fingerprint found in DNS.",
            ),
        ] {
            let outcome = place.connect(client, resolv, records, verify);
            assert_ne!(outcome.status, 0, "{client:?} {}", outcome.summary());
            assert_says(&outcome, said);
        }
        let outcome = place.connect(client, TRUSTED, right, "no");
        assert_ne!(outcome.status, 0, "{}", outcome.summary());
        assert!(
            !outcome.stderr.text().contains("in DNS"),
            "{}",
            outcome.summary()
        );
    }
}

#[test]
fn a_resolver_of_this_machine_needs_trust_ad_and_a_long_answer_comes_by_tcp() {
    let Some(place) = Place::new() else { return };
    let local = "nameserver 127.0.0.1\n";
    let outcome = place.connect(Kind::tested(), local, &place.records, "yes");
    assert_ne!(outcome.status, 0, "{}", outcome.summary());
    assert_says(&outcome, MATCHING);
    let local = "nameserver 127.0.0.1\noptions trust-ad\n";
    let outcome = place.connect(Kind::tested(), local, &place.records, "yes");
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    // Records of other algorithms, which are passed over, until the answer does not fit.
    let mut many: Vec<String> = (0..80_u8)
        .map(|at| format!("0902{}", format!("{at:02x}").repeat(32)))
        .collect();
    many.extend(place.records.iter().cloned());
    let outcome = place.connect(Kind::tested(), local, &many, "yes");
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    assert_says(&outcome, "found 82 secure fingerprints in DNS");
    let silent = "nameserver 192.0.2.99\noptions timeout:1 attempts:1\n";
    let outcome = place.connect(Kind::tested(), silent, &place.records, "yes");
    assert_ne!(outcome.status, 0, "{}", outcome.summary());
}
