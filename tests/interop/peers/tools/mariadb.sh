# MariaDB, whose server speaks first: its client through a Unix socket to the server's port, to its Unix socket, and through -R.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mariadb-install-db --no-defaults --datadir="$T_DIR/db" --auth-root-authentication-method=normal --skip-test-db \
    --skip-name-resolve >installed 2>&1
PATH=$PATH:/usr/sbin mariadbd --no-defaults --user="$(id -un)" --datadir="$T_DIR/db" --bind-address=127.0.0.1 --port="$port" \
    --socket="$T_DIR/s" --pid-file="$T_DIR/pid" >served 2>&1 &
served=$!
trap 'kill $served' EXIT
until [ -e s ]; do
    kill -0 $served
    sleep 0.1
done
ssh -N -L "$T_DIR/to-port:127.0.0.1:$port" -L "$T_DIR/to-path:$T_DIR/s" -R "$T_DIR/back:127.0.0.1:$port" \
    -o ExitOnForwardFailure=yes "$T_HOST" &
tunnel=$!
trap 'kill $served $tunnel' EXIT
for way in to-port to-path back; do
    until [ -e $way ]; do
        kill -0 $tunnel
        sleep 0.1
    done
    ask() {
        mariadb --no-defaults --user=root --socket="$T_DIR/$way" --skip-column-names --raw --execute="$1"
    }
    [ "$(ask 'select 6 * 7')" = 42 ]
    # An answer of more than one window.
    [ "$(ask "select repeat('x', 9000000)" | wc -c)" = 9000001 ]
done
