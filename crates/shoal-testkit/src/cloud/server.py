"""A cloud on loopback: moto's EC2 and EFS, with what moto lacks and with bad days on demand.

Moto 5.2 knows no placement groups, no tags of snapshots, leaves root disks behind, lets a protected instance go, and never runs out of anything.
This stands in front of its WSGI application, answers for placement groups itself, and can refuse or hold calls. Prints its port as the first line.

  GET  /shoal/instances   what moto has: id, state, private and public address, public key, zone, and the instance that its image was made of
  GET  /shoal/calls       every call so far, in order; and whether one is being held
  POST /shoal/faults      [{"action": "RunInstances", "code": "VcpuLimitExceeded", "times": 1, "subnet": "subnet-1", "after": 0, "lost": false}, ...]
                          which calls are refused; "lost": the call is done, and its answer is an error of the server
  POST /shoal/hold        {"calls": 3}: the third call that changes something is done, and its answer never comes
  POST /shoal/mapped      ["i-1", ...]: instances that have a test host. From the first such word on, a launch is answered only when its
                          instances are among them, so that nobody dials one before
  POST /shoal/pending     true: instances that run are said to be pending, until it is told false
  GET  /shoal/address     the caller's address, as checkip.amazonaws.com would say it
"""

import io
import json
import sys
import threading
import uuid
from urllib.parse import parse_qs, parse_qsl, urlencode

from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ROOT_DISKS = ("/dev/sda1", "/dev/xvda")
ACCOUNT = "123456789012"
CHANGES = ("Create", "Run", "Import", "Authorize", "Terminate", "Delete", "Start", "Stop", "Revoke", "Modify")

lock = threading.Lock()
placements = {}
calls = []
faults = []
hold = {"calls": 0, "seen": 0, "held": False}
release = threading.Event()
mapped = {"bridged": False, "ids": set()}
news = threading.Condition()
pending = [False]


def xml(action, body):
    return f'<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>{uuid.uuid4()}</requestId>{body}</{action}Response>'


def refusal(code, message):
    return f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"


def instances():
    found = []
    for regions in ec2_backends.values():
        for region, backend in regions.items():
            for reservation in backend.reservations.values():
                for one in reservation.instances:
                    key = backend.key_pairs.get(one.key_name) if one.key_name else None
                    image = backend.amis.get(one.image_id)
                    found.append({
                        "id": one.id,
                        "region": region,
                        "state": one.instance_state.name,
                        "address": one.private_ip,
                        "public": one.public_ip,
                        "key": key.material_public if key else None,
                        "zone": one.placement.zone,
                        "baked_from": getattr(image, "instance_id", None),
                    })
    return found


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def placement_group(action, query):
    name = query.get("GroupName", [""])[0]
    if action == "CreatePlacementGroup":
        if name in placements:
            return 400, refusal("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        tags, i = {}, 1
        while f"TagSpecification.1.Tag.{i}.Key" in query:
            tags[query[f"TagSpecification.1.Tag.{i}.Key"][0]] = query[f"TagSpecification.1.Tag.{i}.Value"][0]
            i += 1
        placements[name] = (query.get("Strategy", ["cluster"])[0], tags)
        return 200, xml(action, "<return>true</return>")
    if action == "DeletePlacementGroup":
        if name not in placements:
            return 400, refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        if any(one["state"] not in ("terminated",) for one in instances() if users.get(one["id"]) == name):
            return 400, refusal("InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use.")
        del placements[name]
        return 200, xml(action, "<return>true</return>")
    items = ""
    for name, (strategy, tags) in placements.items():
        pairs = "".join(f"<item><key>{k}</key><value>{v}</value></item>" for k, v in tags.items())
        items += f"<item><groupName>{name}</groupName><strategy>{strategy}</strategy><state>available</state><tagSet>{pairs}</tagSet></item>"
    return 200, xml(action, f"<placementGroupSet>{items}</placementGroupSet>")


# Which instance stands in which placement group: moto does not keep it.
users = {}


def protected(query):
    """Moto terminates what is protected; EC2 does not."""
    wanted = [values[0] for key, values in query.items() if key.startswith("InstanceId")]
    for regions in ec2_backends.values():
        for backend in regions.values():
            for reservation in backend.reservations.values():
                for one in reservation.instances:
                    if one.id in wanted and text(one.disable_api_termination) in (True, "true"):
                        return one.id
    return None


# What a token has launched already: moto would launch it again.
launched = {}


def taken(name):
    images = (image for regions in ec2_backends.values() for backend in regions.values() for image in backend.amis.values())
    return any(image.name == name for image in images)


def fault(action, query):
    for one in faults:
        zone_ok = "subnet" not in one or one["subnet"] == query.get("SubnetId", [None])[0]
        if one["action"] in (action, "*") and one["times"] > 0 and zone_ok:
            if one.get("after", 0) > 0:
                one["after"] -= 1
                continue
            one["times"] -= 1
            return one["code"], one.get("lost", False)
    return None, False


def without_snapshot_tags(body):
    """Moto does not implement tags of an image's snapshots, and says so with a 500."""
    pairs = parse_qsl(body.decode(), keep_blank_values=True)
    drop = [key.rsplit(".", 1)[0] + "." for key, value in pairs if key.endswith(".ResourceType") and value == "snapshot"]
    return urlencode([pair for pair in pairs if not pair[0].startswith(tuple(drop))]).encode() if drop else body


def with_root_disks_that_go(body):
    """A root disk of which nothing is said goes with its instance; moto keeps it if the call gives its size."""
    pairs = parse_qsl(body.decode(), keep_blank_values=True)
    said = dict(pairs)
    for key, value in list(said.items()):
        mapping, _, field = key.rpartition(".")
        goes = f"{mapping}.Ebs.DeleteOnTermination"
        if field == "DeviceName" and value in ROOT_DISKS and goes not in said and f"{mapping}.NoDevice" not in said:
            pairs.append((goes, "true"))
    return urlencode(pairs).encode()


def reply(status, text_, kind="text/xml"):
    data = text_.encode()
    return status, [("Content-Type", kind), ("Content-Length", str(len(data)))], [data]


def answer(start, status, headers, chunks):
    start(status, headers)
    return chunks


class Front:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, environ, start):
        path = environ["PATH_INFO"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if path.startswith("/shoal/"):
            return self.own(path[7:], body, start)
        if b"Action=CreateImage&" in body or body.endswith(b"Action=CreateImage"):
            body = without_snapshot_tags(body)
        if b"Action=RunInstances" in body and b"BlockDeviceMapping" in body:
            body = with_root_disks_that_go(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ["wsgi.input"] = io.BytesIO(body)
        query = parse_qs(body.decode("utf-8", "replace")) if environ["REQUEST_METHOD"] == "POST" else {}
        action = query.get("Action", [f"{environ['REQUEST_METHOD']} {path}"])[0]
        is_efs = path.startswith("/2015-02-01/")
        changes = action.startswith(CHANGES) or (is_efs and environ["REQUEST_METHOD"] in ("POST", "DELETE"))
        with lock:
            calls.append(action)
            refused, lost = fault(action, query)
        if refused and not lost:
            status = "503 Unavailable" if refused == "RequestLimitExceeded" else "400 Bad Request"
            return answer(start, *reply(status, refusal(refused, f"The test says {refused}.")))
        if "PlacementGroup" in action:
            status, text_ = placement_group(action, query)
            result = reply(f"{status} OK", text_)
        elif action == "TerminateInstances" and (held := protected(query)):
            message = f"The instance '{held}' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."
            result = reply("400 Bad Request", refusal("OperationNotPermitted", message))
        elif action == "StopInstances" and pending[0]:
            message = "The instance is not in a state from which it can be stopped."
            result = reply("400 Bad Request", refusal("IncorrectInstanceState", message))
        elif action == "CreateImage" and taken(query.get("Name", [""])[0]):
            result = reply("400 Bad Request", refusal("InvalidAMIName.Duplicate", "The name is in use by another image."))
        elif action == "RunInstances" and query.get("ClientToken", [None])[0] in launched:
            result = launched[query["ClientToken"][0]]
        else:
            said = []
            before = {one["id"] for one in instances()}

            def remember(status, headers, exc_info=None):
                said.append((status, headers))
                return lambda data: None

            chunks = list(self.inner(environ, remember))
            if pending[0] and action == "DescribeInstances":
                # Of one length, so that the answer's length stays true.
                chunks = [chunk.replace(b"<name>running</name>", b"<name>pending</name>") for chunk in chunks]
            group = query.get("Placement.GroupName", [None])[0]
            new = {one["id"] for one in instances()} - before if action == "RunInstances" else set()
            if group:
                users.update(dict.fromkeys(new, group))
            # Shorter than the minute that the SDK waits for an answer.
            with news:
                news.wait_for(lambda: not mapped["bridged"] or new <= mapped["ids"], timeout=50)
            result = (*said[0], chunks)
            if action == "RunInstances" and "ClientToken" in query and said[0][0].startswith("200"):
                launched[query["ClientToken"][0]] = result
        if changes and self.hold():
            release.wait(120)
        if lost:
            result = reply("500 Internal Server Error", refusal(refused, "The answer was lost."))
        return answer(start, *result)

    def hold(self):
        with lock:
            hold["seen"] += 1
            if hold["calls"] and hold["seen"] == hold["calls"]:
                hold["held"] = True
                return True
        return False

    def own(self, what, body, start):
        if what == "instances":
            data = json.dumps([{k: text(v) for k, v in one.items()} for one in instances()])
        elif what == "calls":
            data = json.dumps({"calls": calls, "held": hold["held"], "seen": hold["seen"]})
        elif what == "faults":
            with lock:
                faults[:] = json.loads(body)
            data = "{}"
        elif what == "mapped":
            with news:
                mapped.update(bridged=True, ids=set(json.loads(body)))
                news.notify_all()
            data = "{}"
        elif what == "pending":
            pending[0] = json.loads(body)
            data = "{}"
        elif what == "hold":
            with lock:
                hold.update(json.loads(body), seen=0, held=False)
                release.set()
                release.clear()
            data = "{}"
        else:
            data = "198.51.100.7\n"
        return answer(start, *reply("200 OK", data, "application/json"))


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *args):
        pass


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Front(DomainDispatcherApplication(create_backend_app)), threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    # Whoever started us holds our input open; its end is ours.
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()
