package node

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Processes are started by one thread that never ends: what the kernel kills with its parent it kills when the thread goes that started it.
type spawner chan func()

func newSpawner() spawner {
	orders := make(spawner)
	go func() {
		runtime.LockOSThread()
		for order := range orders {
			order()
		}
	}()
	return orders
}

func (s spawner) start(command *exec.Cmd) error {
	done := make(chan error)
	s <- func() {
		if command.SysProcAttr == nil {
			command.SysProcAttr = &syscall.SysProcAttr{}
		}
		// The node's power goes, its processes go.
		command.SysProcAttr.Pdeathsig = syscall.SIGKILL
		done <- command.Start()
	}
	return <-done
}

func children(pid int) []int {
	name := strconv.Itoa(pid)
	text, err := os.ReadFile("/proc/" + name + "/task/" + name + "/children")
	if err != nil {
		return nil
	}
	var found []int
	for _, one := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(one); err == nil {
			found = append(found, child)
		}
	}
	return found
}

// What a process and all below it have in memory, in bytes.
func resident(pid int) int64 {
	var sum int64
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			sum = pages * int64(os.Getpagesize())
		}
	}
	for _, child := range children(pid) {
		sum += resident(child)
	}
	return sum
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
