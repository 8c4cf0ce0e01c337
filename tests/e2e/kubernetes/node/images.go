package node

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Every image is this machine's own files, but for those named missing/...: no registry has them.
type images struct {
	mutex  sync.Mutex
	pulled map[string]bool
}

func newImages() *images { return &images{pulled: map[string]bool{}} }

func missing(name string) bool {
	return strings.HasPrefix(name, "missing/") || strings.Contains(name, "/missing/")
}

func (i *images) image(name string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{name}, Size: 1, Spec: &runtimeapi.ImageSpec{Image: name}}
}

func (i *images) ListImages(_ context.Context, _ *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	var all []*runtimeapi.Image
	for name := range i.pulled {
		all = append(all, i.image(name))
	}
	return all, nil
}

func (i *images) ImageStatus(_ context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := strings.TrimPrefix(spec.Image, "sha256:")
	if !i.pulled[name] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: i.image(name)}, nil
}

func (i *images) PullImage(_ context.Context, spec *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	if missing(spec.Image) {
		return "", status.Errorf(codes.NotFound, "failed to pull and unpack image %q: not found", spec.Image)
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.pulled[spec.Image] = true
	return "sha256:" + spec.Image, nil
}

func (i *images) RemoveImage(_ context.Context, spec *runtimeapi.ImageSpec) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	delete(i.pulled, strings.TrimPrefix(spec.Image, "sha256:"))
	return nil
}

func (i *images) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, nil
}

func (i *images) Close() error { return nil }
