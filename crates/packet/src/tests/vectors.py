"""Writes vectors.txt: packets sealed by asyncssh, for the tests beside it.

python3 -m pip install asyncssh; needs libnettle for UMAC. Columns: cipher, MAC or '-', wire
bytes in hex of three packets with the sequence numbers 2^32-2, 2^32-1 and 0. Padding is
AES-128-CTR's key stream of an all-zero key and IV, as for Sequencer's seed of zeros.
"""

from asyncssh.encryption import get_encryption
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

CIPHERS = {
    'aes128-gcm@openssh.com': (16, 12, 16), 'aes256-gcm@openssh.com': (32, 12, 16),
    'chacha20-poly1305@openssh.com': (64, 0, 8),
    'aes128-ctr': (16, 16, 16), 'aes192-ctr': (24, 16, 16), 'aes256-ctr': (32, 16, 16),
    'aes128-cbc': (16, 16, 16), 'aes192-cbc': (24, 16, 16), 'aes256-cbc': (32, 16, 16),
    '3des-cbc': (24, 8, 8)}
MACS = {
    'umac-64-etm@openssh.com': 16, 'umac-128-etm@openssh.com': 16,
    'hmac-sha2-256-etm@openssh.com': 32, 'hmac-sha2-512-etm@openssh.com': 64,
    'hmac-sha1-etm@openssh.com': 20, 'umac-64@openssh.com': 16, 'umac-128@openssh.com': 16,
    'hmac-sha2-256': 32, 'hmac-sha2-512': 64, 'hmac-sha1': 20,
    'hmac-sha1-96-etm@openssh.com': 20, 'hmac-md5-etm@openssh.com': 16,
    'hmac-md5-96-etm@openssh.com': 16, 'hmac-sha1-96': 20, 'hmac-md5': 16, 'hmac-md5-96': 16}
PAYLOADS = [b'\x15', bytes(range(94, 94 + 21)), bytes(i * 7 % 251 for i in range(75))]


def row(cipher, mac):
    key_len, iv_len, block = CIPHERS[cipher]
    key = bytes(range(1, 1 + key_len))
    # The next CTR or GCM counter carries out of its low 32 bits.
    iv = {0: b'', 12: bytes.fromhex('a0a1a2a3' '00000000ffffffff'),
          8: b'\xff' * 8, 16: b'\xff' * 16}[iv_len]
    mac_key = bytes(range(101, 101 + MACS[mac])) if mac else b''
    etm = not mac or '-etm' in mac
    kind = get_encryption(cipher.encode(), key, iv, (mac or '').encode(), mac_key, etm)
    padding = Cipher(algorithms.AES(bytes(16)), modes.CTR(bytes(16))).encryptor()
    wire = []
    for number, payload in enumerate(PAYLOADS):
        aligned = 1 + len(payload) + (0 if etm else 4)
        pad = -aligned % block
        pad += block if pad < 4 else 0
        header = (1 + len(payload) + pad).to_bytes(4, 'big')
        body = bytes([pad]) + payload + padding.update(bytes(pad))
        packet, tag = kind.encrypt_packet((2**32 - 2 + number) % 2**32, header, body)
        wire.append((packet + tag).hex())
    return ' '.join([cipher, mac or '-', *wire])


def main():
    with open('vectors.txt', 'w') as out:
        for cipher in CIPHERS:
            for mac in (MACS if cipher.endswith(('-ctr', '-cbc')) else [None]):
                out.write(row(cipher, mac) + '\n')


main()
