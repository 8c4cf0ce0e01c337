CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (seq INTEGER PRIMARY KEY, version INTEGER NOT NULL, json TEXT NOT NULL);
CREATE TABLE ended (
        sweep TEXT NOT NULL, cell INTEGER NOT NULL, rep INTEGER NOT NULL, number INTEGER NOT NULL, rank INTEGER NOT NULL,
        success INTEGER NOT NULL, seq INTEGER NOT NULL,
        PRIMARY KEY (sweep, cell, rep, number, rank)
    ) WITHOUT ROWID;
CREATE INDEX succeeded ON ended (sweep, cell, rep, number, rank) WHERE success;
INSERT INTO meta (key, value) VALUES ('schema', '1');
INSERT INTO events (seq, version, json) VALUES (1, 2, '{"host_added":{"at":10,"policy":{"name":"a","groups":["gpu"],"slots":2,"cpus":null,"memory_bytes":null,"owner":null,"lost_after_seconds":600,"reach":null}}}');
INSERT INTO events (seq, version, json) VALUES (2, 2, '{"host_added":{"at":10,"policy":{"name":"b","groups":["gpu"],"slots":2,"cpus":null,"memory_bytes":null,"owner":null,"lost_after_seconds":600,"reach":null}}}');
INSERT INTO events (seq, version, json) VALUES (3, 2, '{"host_seen":{"at":11,"name":"a","facts":{"boot":"boot","cpus":4,"memory_bytes":8589934592,"gpus":[],"load1":0.0,"free_disk_bytes":107374182400,"idle_seconds":null,"users":[]}}}');
INSERT INTO events (seq, version, json) VALUES (4, 2, '{"host_seen":{"at":11,"name":"b","facts":{"boot":"boot","cpus":4,"memory_bytes":8589934592,"gpus":[],"load1":0.0,"free_disk_bytes":107374182400,"idle_seconds":null,"users":[]}}}');
INSERT INTO events (seq, version, json) VALUES (5, 2, '{"submitted":{"at":12,"sweep":{"version":1,"name":"mlp","owner":"nobody","parts":[{"fixed":{},"dimensions":[{"names":["x"],"rows":[[0],[1],[2],[3],[4],[5],[6],[7]]}],"only":null}],"reps":1,"command":{"argv":["/bin/true"],"env":{},"pass":{"flags":false,"env":false,"file":false},"trees":[],"folder":null,"setup":[],"virtualenv":null,"requirements":null},"wants":{"cpus_milli":1000,"memory_bytes":null,"gpus_milli":0,"gpu_memory_bytes":null,"ranks":1,"on":[]},"rules":{"time_limit_seconds":null,"retries":0,"priority":0,"stop_after_failures":5,"grace_seconds":10,"fatal_codes":[],"results":null,"seed":0},"after":[],"provenance":{"folder":"","host":"","commit":null,"diff":null,"packages":[]}}}}');
INSERT INTO events (seq, version, json) VALUES (6, 2, '{"submitted":{"at":12,"sweep":{"version":1,"name":"old","owner":"nobody","parts":[{"fixed":{},"dimensions":[{"names":["x"],"rows":[[0]]}],"only":null}],"reps":1,"command":{"argv":["/bin/true"],"env":{},"pass":{"flags":false,"env":false,"file":false},"trees":[],"folder":null,"setup":[],"virtualenv":null,"requirements":null},"wants":{"cpus_milli":1000,"memory_bytes":null,"gpus_milli":0,"gpu_memory_bytes":null,"ranks":1,"on":[]},"rules":{"time_limit_seconds":null,"retries":0,"priority":0,"stop_after_failures":5,"grace_seconds":10,"fatal_codes":[],"results":null,"seed":0},"after":[],"provenance":{"folder":"","host":"","commit":null,"diff":null,"packages":[]}}}}');
INSERT INTO events (seq, version, json) VALUES (7, 2, '{"topped_up":{"at":13,"name":"mlp","new":[],"reps":2,"like":{"version":1,"name":"mlp","owner":"nobody","parts":[{"fixed":{},"dimensions":[{"names":["x"],"rows":[[0],[1]]}],"only":null}],"reps":2,"command":{"argv":["/bin/true"],"env":{},"pass":{"flags":false,"env":false,"file":false},"trees":[],"folder":null,"setup":[],"virtualenv":null,"requirements":null},"wants":{"cpus_milli":1000,"memory_bytes":null,"gpus_milli":0,"gpu_memory_bytes":null,"ranks":1,"on":[]},"rules":{"time_limit_seconds":null,"retries":0,"priority":0,"stop_after_failures":5,"grace_seconds":10,"fatal_codes":[],"results":null,"seed":0},"after":[],"provenance":{"folder":"","host":"","commit":null,"diff":null,"packages":[]}}}}');
INSERT INTO events (seq, version, json) VALUES (8, 2, '{"quota_set":{"at":14,"user":"ann","slots":7}}');
INSERT INTO events (seq, version, json) VALUES (9, 2, '{"assigned":{"at":20,"attempt":{"run":{"sweep":"mlp","cell":0,"rep":0},"number":1},"places":[{"host":"a","devices":[{"uuid":"GPU-1","milli":250}]}],"after":null}}');
INSERT INTO events (seq, version, json) VALUES (10, 2, '{"assigned":{"at":20,"attempt":{"run":{"sweep":"mlp","cell":1,"rep":0},"number":1},"places":[{"host":"a","devices":[{"uuid":"GPU-1","milli":250}]}],"after":{"run":{"sweep":"mlp","cell":0,"rep":0},"number":1}}}');
INSERT INTO events (seq, version, json) VALUES (11, 2, '{"assigned":{"at":20,"attempt":{"run":{"sweep":"mlp","cell":2,"rep":0},"number":1},"places":[{"host":"b","devices":[{"uuid":"GPU-1","milli":250}]}],"after":null}}');
INSERT INTO events (seq, version, json) VALUES (12, 2, '{"assigned":{"at":20,"attempt":{"run":{"sweep":"mlp","cell":3,"rep":0},"number":1},"places":[{"host":"a","devices":[{"uuid":"GPU-1","milli":250}]}],"after":null}}');
INSERT INTO events (seq, version, json) VALUES (13, 2, '{"began":{"at":21,"attempt":{"run":{"sweep":"mlp","cell":0,"rep":0},"number":1}}}');
INSERT INTO events (seq, version, json) VALUES (14, 2, '{"results_wait":{"at":22,"host":"a","attempt":{"run":{"sweep":"mlp","cell":0,"rep":0},"number":1},"rank":0}}');
INSERT INTO events (seq, version, json) VALUES (15, 2, '{"ended":{"at":30,"host":"a","ended":{"attempt":{"run":{"sweep":"mlp","cell":0,"rep":0},"number":1},"rank":0,"ending":{"exited":0},"began":1000,"ended":3500,"cpu_ms":10,"peak_memory_bytes":1048576,"peak_gpu_bytes":0,"output_bytes":12,"metrics":[["loss","0.25"]],"tail":"","results":null}}}');
INSERT INTO events (seq, version, json) VALUES (16, 2, '{"ended":{"at":30,"host":"a","ended":{"attempt":{"run":{"sweep":"mlp","cell":1,"rep":0},"number":1},"rank":0,"ending":{"exited":3},"began":1000,"ended":3500,"cpu_ms":10,"peak_memory_bytes":1048576,"peak_gpu_bytes":0,"output_bytes":12,"metrics":[["loss","0.25"]],"tail":"the last line\n","results":null}}}');
INSERT INTO events (seq, version, json) VALUES (17, 2, '{"stop_asked":{"at":31,"by":"ann","target":{"run":{"sweep":"mlp","cell":3,"rep":0}}}}');
INSERT INTO events (seq, version, json) VALUES (18, 2, '{"stopping":{"at":31,"attempt":{"run":{"sweep":"mlp","cell":3,"rep":0},"number":1},"checkpoint_first":false,"why":"ann asked"}}');
INSERT INTO events (seq, version, json) VALUES (19, 2, '{"ended":{"at":30,"host":"a","ended":{"attempt":{"run":{"sweep":"mlp","cell":3,"rep":0},"number":1},"rank":0,"ending":"stopped","began":1000,"ended":3500,"cpu_ms":10,"peak_memory_bytes":1048576,"peak_gpu_bytes":0,"output_bytes":12,"metrics":[["loss","0.25"]],"tail":"the last line\n","results":null}}}');
INSERT INTO events (seq, version, json) VALUES (20, 2, '{"host_silent":{"at":40,"name":"b"}}');
INSERT INTO events (seq, version, json) VALUES (21, 2, '{"host_lost":{"at":41,"name":"b","why":"silent"}}');
INSERT INTO events (seq, version, json) VALUES (22, 2, '{"retried":{"at":42,"by":"ann","target":{"run":{"sweep":"mlp","cell":1,"rep":0}}}}');
INSERT INTO events (seq, version, json) VALUES (23, 2, '{"paused":{"at":43,"by":"ann","what":{"sweep":"mlp"}}}');
INSERT INTO events (seq, version, json) VALUES (24, 2, '{"resumed":{"at":44,"by":"ann","what":{"sweep":"mlp"}}}');
INSERT INTO events (seq, version, json) VALUES (25, 2, '{"paused":{"at":45,"by":"ann","what":{"host":"a"}}}');
INSERT INTO events (seq, version, json) VALUES (26, 2, '{"host_drained":{"at":46,"name":"a","why":"it fails everything"}}');
INSERT INTO events (seq, version, json) VALUES (27, 2, '{"host_removed":{"at":47,"name":"b"}}');
INSERT INTO events (seq, version, json) VALUES (28, 2, '{"forgotten":{"at":48,"name":"old"}}');
INSERT INTO ended (sweep, cell, rep, number, rank, success, seq) VALUES ('mlp', 0, 0, 1, 0, 1, 15);
INSERT INTO ended (sweep, cell, rep, number, rank, success, seq) VALUES ('mlp', 1, 0, 1, 0, 0, 16);
INSERT INTO ended (sweep, cell, rep, number, rank, success, seq) VALUES ('mlp', 3, 0, 1, 0, 0, 19);
