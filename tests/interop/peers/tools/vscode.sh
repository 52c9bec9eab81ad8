# What the Remote-SSH extension of VS Code does with ssh: "-T -D PORT HOST bash" with a script as its input.
python3 "$T_PEERS/tools/vscode_pattern.py"
