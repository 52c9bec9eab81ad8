# git-annex: contents sent to a clone there and fetched again, by git-annex-shell over its own shared connection.
export HOME="$T_DIR" GIT_CONFIG_NOSYSTEM=1
git config --global user.name mia
git config --global user.email mia@example.org
git config --global safe.directory '*'
git config --global init.defaultBranch main
git init -q there
(cd there && git annex init -q there && git commit -q --allow-empty -m start)
git clone -q "ssh://$T_HOST$T_DIR/there" here
cd here
git annex init -q here
cp ../data data
git annex add -q data
git commit -q -m data
git push -q origin HEAD:refs/heads/synced/main
git annex copy -q --to origin data
git annex drop -q data
test ! -e data
git annex get -q data
cmp data ../data
git annex fsck -q --from origin data
