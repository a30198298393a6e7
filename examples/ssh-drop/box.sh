# Another host for a replay: a real sshd that answers on no port. Each `ssh -F $stage/ssh/config box` starts its own, and
# when the client dies the daemon hangs up its terminal, as it does when a connection drops.
#
# shellcheck shell=bash
make_box() {
    local dir=$stage/ssh
    mkdir -p "$dir"
    ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
    ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
    cp "$dir/key.pub" "$dir/authorized"
    echo "box $(cut -d' ' -f1,2 "$dir/host_key.pub")" >"$dir/known"
    # The daemon run by root wants this directory.
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    cat >"$dir/sshd_config" <<CONFIG
HostKey $dir/host_key
AuthorizedKeysFile $dir/authorized
StrictModes no
UsePAM no
PidFile none
LogLevel ERROR
PermitRootLogin yes
PrintMotd no
SetEnv PATH=$PATH REPLAY=$REPLAY HOME_OF_TOOL=$HOME_OF_TOOL BERTH_HOME=$BERTH_HOME BERTH_CONFIG=$BERTH_CONFIG
CONFIG
    cat >"$dir/config" <<CONFIG
Host box
  ProxyCommand $(PATH=$PATH:/usr/sbin:/sbin command -v sshd) -i -f $dir/sshd_config
  User $(id -un)
  IdentityFile $dir/key
  IdentitiesOnly yes
  UserKnownHostsFile $dir/known
  HostKeyAlias box
  LogLevel ERROR
CONFIG
}

on_box() { ssh -F "$stage/ssh/config" box "$@"; }
