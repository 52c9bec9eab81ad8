"""A login with the signature that a browser would ask a security key for, made by paramiko.

    webauthn_client.py PORT USER KEY_FILE PARTS

The file holds a key of P-256, in place of the token's. PARTS is a JSON object: algorithm,
key (the public key in base64), application, type, origin, claimed (the origin beside the client
data), before and after (text put before and after the challenge), flags, extensions (hex). Prints
"in" or "refused".
"""

import base64
import hashlib
import json
import socket
import sys

import paramiko


class BrowserKey(paramiko.PKey):
    public_blob = None

    def __init__(self, secret, parts):
        self.secret = secret
        self.parts = parts

    def get_name(self):
        return self.parts["algorithm"]

    def asbytes(self):
        return base64.b64decode(self.parts["key"])

    def can_sign(self):
        return True

    def sign_ssh_data(self, data, algorithm=None):
        parts = self.parts
        challenge = base64.urlsafe_b64encode(data).decode().rstrip("=")
        client_data = (
            '{"type":"%s","challenge":"%s%s%s","origin":"%s","crossOrigin":false}'
            % (parts["type"], parts["before"], challenge, parts["after"], parts["origin"])
        ).encode()
        extensions = bytes.fromhex(parts["extensions"])
        state = bytes([parts["flags"]]) + (9).to_bytes(4, "big")
        signed = hashlib.sha256(parts["application"].encode()).digest() + state + extensions
        signed += hashlib.sha256(client_data).digest()
        plain = paramiko.Message(self.secret.sign_ssh_data(signed).asbytes())
        plain.get_string()
        out = paramiko.Message()
        out.add_string("webauthn-sk-ecdsa-sha2-nistp256@openssh.com")
        out.add_string(plain.get_binary())
        out.add_bytes(state)
        out.add_string(parts["claimed"])
        out.add_string(client_data)
        out.add_string(extensions)
        return out


def main(port, user, path, parts):
    transport = paramiko.Transport(socket.create_connection(("127.0.0.1", int(port)), timeout=60))
    try:
        transport.start_client(timeout=60)
        transport.auth_publickey(user, BrowserKey(paramiko.ECDSAKey(filename=path), json.loads(parts)))
        print("in")
    except paramiko.AuthenticationException:
        print("refused")
    finally:
        transport.close()


main(*sys.argv[1:])
