package node

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A pod's sandbox: a process that does nothing and holds the pod's network, host name and IPC.
type sandbox struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	created int64
	pause   *exec.Cmd
	ended   chan struct{}
	address string
	host    bool
	ready   bool
}

func (r *processes) RunPodSandbox(_ context.Context, config *runtimeapi.PodSandboxConfig, _ string) (string, error) {
	id := r.fresh()
	box := &sandbox{id: id, config: config, created: time.Now().UnixNano(), ended: make(chan struct{}), ready: true}
	box.host = config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	spaces := []string{"--uts", "--ipc", "--mount", "--propagation=private"}
	if !box.host {
		spaces = append(spaces, "--net")
	}
	script := `hostname "$0" && echo up && exec sleep infinity`
	if config.Hostname == "" {
		script = `echo up && exec sleep infinity`
	}
	box.pause = exec.Command("unshare", append(spaces, "sh", "-c", script, config.Hostname)...)
	out, err := box.pause.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := r.spawner.start(box.pause); err != nil {
		return "", err
	}
	// Its namespaces are there once it has spoken.
	if _, err := out.Read(make([]byte, 3)); err != nil {
		_ = box.pause.Process.Kill()
		_ = box.pause.Wait()
		return "", fmt.Errorf("the sandbox did not start: %w", err)
	}
	go func() {
		_ = box.pause.Wait()
		close(box.ended)
	}()
	if !box.host {
		if err := r.link(box); err != nil {
			box.end()
			return "", err
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.sandboxes[id] = box
	return id, nil
}

// The pod's end is eth0; the end on the bridge goes with it.
func (r *processes) link(box *sandbox) error {
	address, err := r.lease(box.id)
	if err != nil {
		return err
	}
	pid := strconv.Itoa(box.pause.Process.Pid)
	end := "k" + pid
	script := fmt.Sprintf(`set -e
ip link add %[1]s type veth peer name eth0 netns %[2]s
ip link set %[1]s master %[3]s up
nsenter --net=/proc/%[2]s/ns/net sh -ec 'ip address add %[4]s/20 dev eth0; ip link set eth0 up; ip link set lo up'`, end, pid, r.spec.bridge, address)
	if said, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot link the pod to %s: %w: %s", r.spec.bridge, err, strings.TrimSpace(string(said)))
	}
	box.address = address
	return nil
}

// An address of the node's /24 that no pod has.
func (r *processes) lease(id string) (string, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	// From where the last one was: an address is not given out again at once.
	for range 253 {
		r.next = (r.next + 1) % 253
		address := fmt.Sprintf("%s.%d", r.subnet, r.next+2)
		if _, taken := r.addresses[address]; !taken {
			r.addresses[address] = id
			return address, nil
		}
	}
	return "", fmt.Errorf("no free address in %s.0/24", r.subnet)
}

func (b *sandbox) end() {
	_ = b.pause.Process.Kill()
	<-b.ended
}

func (r *processes) StopPodSandbox(_ context.Context, id string) error {
	r.mutex.Lock()
	box := r.sandboxes[id]
	var inside []*container
	for _, one := range r.containers {
		if one.sandbox == id {
			inside = append(inside, one)
		}
	}
	r.mutex.Unlock()
	if box == nil {
		return nil
	}
	for _, one := range inside {
		one.kill()
	}
	box.end()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	box.ready = false
	delete(r.addresses, box.address)
	return nil
}

func (r *processes) RemovePodSandbox(ctx context.Context, id string) error {
	if err := r.StopPodSandbox(ctx, id); err != nil {
		return err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.sandboxes, id)
	return nil
}

func (b *sandbox) state() runtimeapi.PodSandboxState {
	if b.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (r *processes) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	box := r.sandboxes[id]
	if box == nil {
		return nil, notFound("sandbox", id)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: id, Metadata: box.config.Metadata, State: box.state(), CreatedAt: box.created,
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: box.address},
		Linux:   &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: box.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
		Labels:  box.config.Labels, Annotations: box.config.Annotations,
	}}, nil
}

func (r *processes) ListPodSandbox(_ context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var found []*runtimeapi.PodSandbox
	for id, box := range r.sandboxes {
		if filter.GetId() != "" && filter.Id != id || filter.GetState() != nil && filter.State.State != box.state() || !has(box.config.Labels, filter.GetLabelSelector()) {
			continue
		}
		found = append(found, &runtimeapi.PodSandbox{Id: id, Metadata: box.config.Metadata, State: box.state(), CreatedAt: box.created, Labels: box.config.Labels, Annotations: box.config.Annotations})
	}
	return found, nil
}

func has(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if labels[name] != value {
			return false
		}
	}
	return true
}
