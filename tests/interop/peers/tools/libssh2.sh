# libssh2 by its Python module.
"$T_TARGET/peers-tools/bin/python" "$T_PEERS/tools/libssh2_client.py"
