//! The schema and the reader say the same of a file's shape.

mod json_schema;

use json_schema::{accepts, names, sorted};
use serde_json::json;
use shoal_core::fleet::schema::native_json_schema;
use shoal_core::fleet::{self, native, native_pool};

#[test]
fn schema_and_reader_agree() {
    let schema = native_json_schema();
    for (file, good) in [
        (json!({"hosts": ["node[01-16]", "a@b:22"]}), true),
        (json!({"hosts": ["a", {"name": "b", "port": 22, "slots": 2, "groups": ["g"]}], "servers": ["a", "g"]}), true),
        (
            json!({"hosts": [{"address": "10.0.0.1", "slots": {"ranks": 1, "memory": "64GiB", "cpus": 4, "gpus": 0}}]}),
            true,
        ),
        (json!({"name": "x", "hosts": ["a"], "defaults": {"user": "u", "key": "k", "slots": {"cpus": 1}}}), true),
        (
            json!({"hosts": ["a"], "environment": {"virtualenv": "/v", "setup": "x", "modules": ["m"], "env": {"A": 1}}}),
            true,
        ),
        (json!({"hosts": ["a"], "shared": "/nfs", "master": "a", "workers": ["a", "a"]}), true),
        (
            json!({"hosts": ["a"], "queue": {"lost_after": "5m", "hosts": {"a": {"slots": 2, "owner": "u", "idle": "5m"}}}}),
            true,
        ),
        (json!({"hosts": ["a"], "queue": {"hosts": {"a": {"slot": 2}}}}), false),
        (
            json!({"pools": [{"name": "p", "slots": 2, "kubernetes": {"image": "i", "volumes": [{"claim": "c", "at": "/mnt", "here": "/hot"}]}}]}),
            true,
        ),
        (
            json!({"pools": [{"name": "p", "slots": 2, "memory": "1GiB", "groups": ["g"], "kubernetes": {"image": "i", "context": "c",
                "namespace": "n", "volumes": [{"claim": "c", "at": "/mnt", "here": "/hot"}], "labels": {"a": "b"}, "nodes": ["n1"],
                "tolerations": [{"key": "k", "operator": "Exists"}], "gpus": {"share": "pinned", "count": 8, "runs": 4}}}]}),
            true,
        ),
        (json!({"pools": [{"name": "p", "slots": 2}]}), false),
        (json!({"pools": [{"name": "p", "slots": 2, "kubernetes": {"image": "i", "volumes": []}}]}), false),
        (json!({"hosts": []}), false),
        (json!({}), false),
        (json!({"hosts": "a"}), false),
        (json!({"hosts": ["a"], "usr": 1}), false),
        (json!({"hosts": [{"name": "a", "usr": "b"}]}), false),
        (json!({"hosts": [{"user": "a"}]}), false),
        (json!({"hosts": [{"name": "a", "port": 70000}]}), false),
        (json!({"hosts": ["a"], "defaults": {"name": "b"}}), false),
        (json!({"hosts": ["a"], "environment": {"virtualenv": "v"}}), false),
        (json!({"hosts": [{"name": "a", "slots": {"gpu": 1}}]}), false),
    ] {
        let text = file.to_string();
        assert_eq!(accepts(&schema, &file), good, "schema: {text}");
        assert_eq!(fleet::read("shoal.yaml", &text).is_ok(), good, "reader: {text}");
    }
}

#[test]
fn the_schema_has_the_fields_of_the_reader() {
    let schema = native_json_schema();
    let top = &schema["properties"];
    assert_eq!(names(&schema), sorted(&native::FIELDS));
    assert_eq!(names(&top["environment"]), sorted(&native::ENVIRONMENT_FIELDS));
    assert_eq!(names(&top["defaults"]), sorted(&native::DEFAULTS_FIELDS));
    assert_eq!(names(&top["hosts"]["items"]["oneOf"][1]), sorted(&native::HOST_FIELDS));
    assert_eq!(names(&top["defaults"]["properties"]["slots"]["oneOf"][1]), sorted(&native::SLOTS_FIELDS));
    let pool = &top["pools"]["items"];
    let kubernetes = &pool["properties"]["kubernetes"];
    assert_eq!(names(pool), sorted(&native_pool::POOL_FIELDS));
    assert_eq!(names(kubernetes), sorted(&native_pool::KUBERNETES_FIELDS));
    assert_eq!(names(&kubernetes["properties"]["volumes"]["items"]), sorted(&native_pool::VOLUME_FIELDS));
    assert_eq!(names(&kubernetes["properties"]["tolerations"]["items"]), sorted(&native_pool::TOLERATION_FIELDS));
    assert_eq!(names(&kubernetes["properties"]["gpus"]), sorted(&native_pool::GPUS_FIELDS));
    assert_eq!(names(&top["queue"]), sorted(&fleet::queue::QUEUE_FIELDS));
    let of_hosts = &top["queue"]["properties"]["hosts"]["additionalProperties"];
    assert_eq!(names(of_hosts), sorted(&fleet::queue::QUEUE_HOST_FIELDS));
}
