#!/bin/sh
# zone.sh DOMAIN: a signed zone with the records that OpenSSH's test sshfp-connect asks for, and unbound as its server
# and as the resolver that validates it. Runs in the chroot as root.
set -eu
domain=$1
keys=/usr/lib/openssh/regress
cd "$(mktemp -d)"

# The test's wrong fingerprints are right ones with e for each f. OpenSSH 9.2 asks for sshtest instead of rsa.
{
    printf '$ORIGIN %s.\n$TTL 60\n@ IN SOA ns root 1 60 60 60 60\n@ IN NS ns\nns IN A 127.0.0.1\n' "$domain"
    for name in rsa ecdsa256 ecdsa384 ecdsa521 ed25519 sshtest; do
        key=$keys/${name}_openssh.pub
        [ $name != sshtest ] || key=$keys/rsa_openssh.pub
        [ -e "$key" ] || continue
        ssh-keygen -r $name -f "$key" | awk '{
            wrong = $6
            gsub(/f/, "e", wrong)
            hash = $5 == 1 ? "sha1" : "sha256"
            print $1, "IN SSHFP", $4, $5, $6
            print $1 "-" hash, "IN SSHFP", $4, $5, $6
            print $1 "-bad IN SSHFP", $4, $5, $5 == 1 ? wrong : $6
            print $1 "-" hash "-bad IN SSHFP", $4, $5, wrong
        }'
    done
} >zone
key=$(ldns-keygen -a ECDSAP256SHA256 -k "$domain")
ldns-signzone -f signed zone "$key"
cat >unbound.conf <<END_OF_CONF
server:
    directory: "$PWD"
    chroot: ""
    username: ""
    pidfile: ""
    interface: 127.0.0.1
    module-config: "validator iterator"
    trust-anchor-file: "$key.key"
remote-control:
    control-enable: no
auth-zone:
    name: "$domain"
    zonefile: "signed"
    for-downstream: no
    for-upstream: yes
END_OF_CONF
unbound -c unbound.conf
printf 'nameserver 127.0.0.1\noptions edns0 trust-ad\n' >/etc/resolv.conf
