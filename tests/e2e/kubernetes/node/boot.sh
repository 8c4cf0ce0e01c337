# Process 1 of a container, in mount and process namespaces of its own. Arguments: the container's folder, its working directory, its user
# (both may be empty), then its command. The container sees this machine's files and may change them for itself alone.
set -eu
folder=$1 work=$2 user=$3
shift 3
mkdir -p "$folder/files"
mount -t tmpfs -o mode=755 tmpfs "$folder/files"
mkdir "$folder/files/upper" "$folder/files/work" "$folder/files/root"
root=$folder/files/root
mount -t overlay -o "lowerdir=/,upperdir=$folder/files/upper,workdir=$folder/files/work" overlay "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
while read -r mode && read -r from && read -r to; do
    if [ -d "$from" ]; then
        mkdir -p "$root$to"
    else
        mkdir -p "$root${to%/*}"
        [ -e "$root$to" ] || : >"$root$to"
    fi
    mount --rbind "$from" "$root$to"
    [ "$mode" = rw ] || mount -o remount,bind,ro "$root$to"
done <"$folder/mounts"
cd "$root"
# A program that is not there ends with 127, as from a shell.
exec chroot ${user:+--userspec="$user:$user"} "$root" /bin/sh -c 'mkdir -p "$0" 2>/dev/null; cd "$0" && exec "$@"' "${work:-/}" "$@"
