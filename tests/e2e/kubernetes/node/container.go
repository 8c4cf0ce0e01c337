package node

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

//go:embed boot.sh
var boot string

// How often a container with a limit is looked at.
const look = 50 * time.Millisecond

type container struct {
	id, sandbox, folder        string
	config                     *runtimeapi.ContainerConfig
	log                        string
	created, started, finished int64
	state                      runtimeapi.ContainerState
	code                       int32
	reason                     string
	command                    *exec.Cmd
	ended                      chan struct{}
	oom                        bool
	mutex                      sync.Mutex
}

func (r *processes) CreateContainer(_ context.Context, sandboxID string, config *runtimeapi.ContainerConfig, box *runtimeapi.PodSandboxConfig) (string, error) {
	if len(config.Command)+len(config.Args) == 0 {
		return "", errors.New("no command specified: images of the tests have no entrypoint")
	}
	id := r.fresh()
	one := &container{
		id: id, sandbox: sandboxID, config: config, created: time.Now().UnixNano(), ended: make(chan struct{}),
		folder: folder(r.spec, "containers/"+id), log: filepath.Join(box.LogDirectory, config.LogPath),
		state: runtimeapi.ContainerState_CONTAINER_CREATED,
	}
	if err := os.MkdirAll(one.folder, 0o700); err != nil {
		return "", err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.containers[id] = one
	return id, nil
}

// What the container mounts where, for boot.sh: three lines each.
func (c *container) mounts() string {
	var lines strings.Builder
	for _, mount := range c.config.Mounts {
		mode := "rw"
		if mount.Readonly {
			mode = "ro"
		}
		fmt.Fprintf(&lines, "%s\n%s\n%s\n", mode, mount.HostPath, mount.ContainerPath)
	}
	return lines.String()
}

func (c *container) environment(host string) []string {
	set := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "HOSTNAME": host}
	for _, one := range c.config.Envs {
		set[one.Key] = one.Value
	}
	var all []string
	for name, value := range set {
		all = append(all, name+"="+value)
	}
	return all
}

func (r *processes) StartContainer(_ context.Context, id string) error {
	r.mutex.Lock()
	one := r.containers[id]
	var box *sandbox
	if one != nil {
		box = r.sandboxes[one.sandbox]
	}
	r.mutex.Unlock()
	if one == nil || box == nil {
		return notFound("container", id)
	}
	if err := os.WriteFile(one.folder+"/mounts", []byte(one.mounts()), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(one.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	user := ""
	if context := one.config.GetLinux().GetSecurityContext(); context.GetRunAsUser() != nil {
		user = strconv.FormatInt(context.RunAsUser.Value, 10)
	}
	pid := box.pause.Process.Pid
	spaces := []string{fmt.Sprintf("--uts=/proc/%d/ns/uts", pid), fmt.Sprintf("--ipc=/proc/%d/ns/ipc", pid)}
	if !box.host {
		spaces = append(spaces, fmt.Sprintf("--net=/proc/%d/ns/net", pid))
	}
	args := append(spaces, "--", "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--propagation=private",
		"sh", "-c", boot, "boot.sh", one.folder, one.config.WorkingDir, user)
	args = append(args, one.config.Command...)
	args = append(args, one.config.Args...)
	one.command = exec.Command("nsenter", args...)
	one.command.Env = one.environment(box.config.Hostname)
	one.command.Dir = "/"
	out, outEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	bad, badEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	one.command.Stdout, one.command.Stderr = outEnd, badEnd
	err = r.spawner.start(one.command)
	_, _ = outEnd.Close(), badEnd.Close()
	if err != nil {
		return err
	}
	one.mutex.Lock()
	one.state, one.started = runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	one.mutex.Unlock()
	go one.follow(log, out, bad)
	if limit := one.config.GetLinux().GetResources().GetMemoryLimitInBytes(); limit > 0 {
		go one.limit(limit)
	}
	return nil
}

// Until the end: its words to its log, then how it ended.
func (c *container) follow(log *os.File, out, bad *os.File) {
	var lines sync.Mutex
	var wait sync.WaitGroup
	for name, stream := range map[string]*os.File{"stdout": out, "stderr": bad} {
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer stream.Close()
			copyLines(stream, func(line, tag string) {
				lines.Lock()
				defer lines.Unlock()
				fmt.Fprintf(log, "%s %s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), name, tag, line)
			})
		}()
	}
	_ = c.command.Wait()
	wait.Wait()
	_ = log.Close()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.state, c.finished = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano()
	c.code = exitCode(c.command.ProcessState)
	switch {
	case c.oom:
		c.reason, c.code = "OOMKilled", 137
	case c.code == 0:
		c.reason = "Completed"
	default:
		c.reason = "Error"
	}
	close(c.ended)
}

// Whole lines are F, pieces of one that is too long or has no end are P.
func copyLines(stream io.Reader, write func(line, tag string)) {
	reader := bufio.NewReaderSize(stream, 16<<10)
	for {
		line, err := reader.ReadSlice('\n')
		switch {
		case err == nil:
			write(strings.TrimSuffix(string(line), "\n"), "F")
		case errors.Is(err, bufio.ErrBufferFull):
			write(string(line), "P")
		default:
			if len(line) > 0 {
				write(string(line), "P")
			}
			return
		}
	}
}

func exitCode(state *os.ProcessState) int32 {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(state.ExitCode())
}

// The container's process 1, as the node sees it; 0 if there is none.
func (c *container) first() int {
	if c.command == nil || c.command.Process == nil {
		return 0
	}
	if found := children(c.command.Process.Pid); len(found) > 0 {
		return found[0]
	}
	return 0
}

func (c *container) limit(bytes int64) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-tick.C:
			if first := c.first(); first != 0 && resident(first) > bytes {
				c.mutex.Lock()
				c.oom = true
				c.mutex.Unlock()
				_ = syscall.Kill(first, syscall.SIGKILL)
				return
			}
		}
	}
}

func (c *container) running() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
}

func (c *container) kill() {
	if !c.running() {
		return
	}
	if first := c.first(); first != 0 {
		_ = syscall.Kill(first, syscall.SIGKILL)
	} else {
		_ = c.command.Process.Kill()
	}
	<-c.ended
}

// TERM, and KILL when the time is over. Process 1 of a container that has no handler for TERM does not get it, as in every container.
func (r *processes) StopContainer(_ context.Context, id string, timeout int64) error {
	r.mutex.Lock()
	one := r.containers[id]
	r.mutex.Unlock()
	if one == nil || !one.running() {
		return nil
	}
	if first := one.first(); first != 0 && timeout > 0 {
		_ = syscall.Kill(first, syscall.SIGTERM)
		select {
		case <-one.ended:
			return nil
		case <-time.After(time.Duration(timeout) * time.Second):
		}
	}
	one.kill()
	return nil
}

func (r *processes) RemoveContainer(_ context.Context, id string) error {
	r.mutex.Lock()
	one := r.containers[id]
	delete(r.containers, id)
	r.mutex.Unlock()
	if one == nil {
		return nil
	}
	one.kill()
	_ = os.Remove(one.log)
	return os.RemoveAll(one.folder)
}

func (r *processes) ListContainers(_ context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var found []*runtimeapi.Container
	for id, one := range r.containers {
		one.mutex.Lock()
		state := one.state
		one.mutex.Unlock()
		if filter.GetId() != "" && filter.Id != id || filter.GetState() != nil && filter.State.State != state ||
			filter.GetPodSandboxId() != "" && filter.PodSandboxId != one.sandbox || !has(one.config.Labels, filter.GetLabelSelector()) {
			continue
		}
		found = append(found, &runtimeapi.Container{
			Id: id, PodSandboxId: one.sandbox, Metadata: one.config.Metadata, Image: one.config.Image, ImageRef: one.config.Image.GetImage(),
			ImageId: one.config.Image.GetImage(), State: state, CreatedAt: one.created, Labels: one.config.Labels, Annotations: one.config.Annotations,
		})
	}
	return found, nil
}

func (r *processes) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mutex.Lock()
	one := r.containers[id]
	r.mutex.Unlock()
	if one == nil {
		return nil, notFound("container", id)
	}
	one.mutex.Lock()
	defer one.mutex.Unlock()
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: id, Metadata: one.config.Metadata, State: one.state, CreatedAt: one.created, StartedAt: one.started, FinishedAt: one.finished,
		ExitCode: one.code, Reason: one.reason, Image: one.config.Image, ImageRef: one.config.Image.GetImage(), ImageId: one.config.Image.GetImage(),
		Labels: one.config.Labels, Annotations: one.config.Annotations, Mounts: one.config.Mounts, LogPath: one.log,
	}}, nil
}
