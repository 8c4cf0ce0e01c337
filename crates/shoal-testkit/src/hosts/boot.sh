# Process 1 of a test host, in mount, process, name and IPC namespaces of its own. Arguments: the host's folder, its name, the
# full path of sshd, a folder of this machine and where the host has it as a drive (or two empty ones), then the paths it shares with
# this machine although they lie below a folder that is private here.
set -eu
folder=$1 name=$2 sshd=$3 drive=$4 drive_at=$5
shift 5

echo "$name" >/proc/sys/kernel/hostname

# Shared paths go into the private tree first: once that is in place, the originals are out of sight.
for path in "$@"; do
    mount --bind "$path" "$folder/files$path"
    mount -o remount,bind,ro "$folder/files$path"
done
if [ -n "$drive" ]; then
    mount -t tmpfs -o mode=755 tmpfs "${drive_at%/*}"
    mkdir "$drive_at"
    mount --bind "$drive" "$drive_at"
fi
mount --bind "$folder/hosts" /etc/hosts
# A machine of its own, started at a moment of its own.
mount --bind "$folder/boot_id" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
# /run goes last: the host's folder itself lies in it.
for place in /root /home /tmp /var/tmp /run; do
    mount --rbind "$folder/files$place" "$place"
done

cd /
exec "$sshd" -D -e -f /dev/null -h /run/shoal/host_key -o PidFile=none -o PasswordAuthentication=no -o UsePAM=no \
    -o StrictModes=no -o Subsystem='sftp internal-sftp'
