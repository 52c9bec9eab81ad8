# libssh by its Python module.
"$T_TARGET/peers-tools/bin/python" "$T_PEERS/tools/libssh_client.py"
