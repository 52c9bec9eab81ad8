# The requests that WinSCP sends for a session with an upload and a download.
"$T_PYTHON" "$T_PEERS/tools/winscp_pattern.py"
