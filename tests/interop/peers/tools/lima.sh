# The commands that Lima (and colima) run for a guest: its options, a master, scripts as input, sockets and ports by -O forward.
guest="127.0.0.1"
options="-i $T_KEY -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o NoHostAuthenticationForLocalhost=yes \
-o GSSAPIAuthentication=no -o PreferredAuthentications=publickey -o Compression=no -o BatchMode=yes -o IdentitiesOnly=yes \
-F /dev/null -o User=$T_USER -o ControlMaster=auto -o ControlPath=\"$T_DIR/ssh.sock\" -o ControlPersist=5m"
chmod 600 "$T_KEY"
trap 'ssh $options -O exit -p $T_PORT $guest 2>/dev/null || true; kill $server 2>/dev/null || true' EXIT
server=
# A requirement of the guest: its script comes by standard input.
printf '#!/bin/bash\nset -eu -o pipefail\ntrue | cat\necho met $0\n' >requirement
ssh $options -p "$T_PORT" "$guest" -- /bin/bash <requirement | grep -qx 'met /bin/bash'
test -S ssh.sock
# The terminal's command, with its own folder and words.
test "$(ssh $options -q -p "$T_PORT" "$guest" -- cd "$T_DIR" ';' exec '$SHELL' --login -c "'echo \"\$PWD\"'" | tail -n 1)" = "$T_DIR"
# A socket of the guest at the host, as for docker.sock, and away again.
cat >answer.py <<'END'
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind("there.new")
listener.listen()
os.rename("there.new", "there")
while True:
    stream = listener.accept()[0]
    stream.sendall(stream.recv(100).upper())
    stream.close()
END
python3 answer.py &
server=$!
while [ ! -S there ]; do sleep 0.1; done
cat >ask.py <<'END'
import socket, sys
where = sys.argv[1]
stream = socket.create_connection(("127.0.0.1", int(where))) if where.isdigit() else socket.socket(socket.AF_UNIX)
if not where.isdigit():
    stream.connect(where)
stream.sendall(b"words")
print(stream.recv(100).decode())
END
ssh $options -T -O forward -L "$T_DIR/here:$T_DIR/there" -N -f -p "$T_PORT" "$guest" --
test "$(python3 ask.py here)" = WORDS
ssh $options -T -O cancel -L "$T_DIR/here:$T_DIR/there" -N -f -p "$T_PORT" "$guest" --
if python3 ask.py here 2>/dev/null; then exit 1; fi
# A port of the host, to the guest's socket.
port=${T_FREE_PORTS%% *}
ssh $options -T -O forward -L "127.0.0.1:$port:$T_DIR/there" -N -f -p "$T_PORT" "$guest" --
test "$(python3 ask.py "$port")" = WORDS
ssh $options -T -O cancel -L "127.0.0.1:$port:$T_DIR/there" -N -f -p "$T_PORT" "$guest" --
ssh $options -O check -p "$T_PORT" "$guest"
ssh $options -O exit -p "$T_PORT" "$guest"
for turn in $(seq 200); do [ -S ssh.sock ] || break; sleep 0.1; done
test ! -S ssh.sock
