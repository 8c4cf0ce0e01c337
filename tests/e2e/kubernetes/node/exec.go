package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/cri/streaming"
	utilexec "k8s.io/utils/exec"
)

// Commands in containers go the way they go with every runtime: the kubelet is given an address on loopback and passes the streams on.
func (r *processes) serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config := streaming.DefaultConfig
	config.Addr = listener.Addr().String()
	config.BaseURL = &url.URL{Scheme: "http", Host: config.Addr}
	if r.streams, err = streaming.NewServer(config, inside{r}); err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, r.streams) }()
	return nil
}

func (r *processes) Exec(_ context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return r.streams.GetExec(request)
}

func (r *processes) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return nil, unable("attach to what runs")
}

func (r *processes) PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return nil, unable("forward ports: pods have addresses of their own on this machine")
}

func (r *processes) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, error) {
	if timeout <= 0 {
		timeout = execBound
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out, bad bytes.Buffer
	err := r.enter(ctx, id, command, nil, &out, &bad, false)
	return out.Bytes(), bad.Bytes(), err
}

// Runs a command in the namespaces of a container, with the container's environment.
func (r *processes) enter(ctx context.Context, id string, command []string, in io.Reader, out, bad io.Writer, tty bool) error {
	r.mutex.Lock()
	one := r.containers[id]
	var host string
	if one != nil && r.sandboxes[one.sandbox] != nil {
		host = r.sandboxes[one.sandbox].config.Hostname
	}
	r.mutex.Unlock()
	if one == nil {
		return notFound("container", id)
	}
	first := one.first()
	if first == 0 || !one.running() {
		return fmt.Errorf("container %s does not run", id)
	}
	args := []string{fmt.Sprintf("--target=%d", first), "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd", "--"}
	if tty {
		var words []string
		for _, word := range command {
			words = append(words, quote(word))
		}
		// Of the essential tools, this one makes a terminal.
		command = []string{"script", "--quiet", "--return", "--flush", "--command", strings.Join(words, " "), "/dev/null"}
	}
	enter := exec.CommandContext(ctx, "nsenter", append(args, command...)...)
	enter.Env, enter.Dir = one.environment(host), "/"
	enter.Stdout, enter.Stderr = out, bad
	if bad == nil {
		enter.Stderr = out
	}
	var feed io.WriteCloser
	if in != nil {
		var err error
		// Not the reader itself: the end of a command is not to wait for the end of what it is told.
		if feed, err = enter.StdinPipe(); err != nil {
			return err
		}
	}
	if err := r.spawner.start(enter); err != nil {
		return err
	}
	if feed != nil {
		go func() {
			_, _ = io.Copy(feed, in)
			_ = feed.Close()
		}()
	}
	err := enter.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return utilexec.CodeExitError{Err: err, Code: int(exitCode(ended.ProcessState))}
	}
	return err
}

type inside struct{ *processes }

func (i inside) Exec(ctx context.Context, id string, command []string, in io.Reader, out, bad io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	var stderr io.Writer
	if bad != nil {
		stderr = bad
	}
	var stdout io.Writer
	if out != nil {
		stdout = out
	}
	return i.enter(ctx, id, command, in, stdout, stderr, tty)
}

func (i inside) Attach(context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return unable("attach to what runs")
}

func (i inside) PortForward(context.Context, string, int32, io.ReadWriteCloser) error {
	return unable("forward ports")
}
