"""A server on this machine with those routes of the Hugging Face Hub that are asked."""

import base64
import contextlib
import hashlib
import http.server
import json
import pathlib
import re
import threading
import urllib.parse

_API = re.compile(r"/api/models/(\w[\w.-]*/[\w.-]+)/?(.*)")
_FILE = re.compile(r"/(\w[\w.-]*/[\w.-]+)/resolve/([^/]+)/(.+)")


class LocalHub:
    """Models by name, each the folder of its files.

    Attributes:
        models: The folders.
        private: Names that need a token; "gated" ones also have conditions.
        gated: The same.
        sent: Paths of the files that were sent, in order.
        broken: Names of files of which only the first half is sent.
        folder_for_uploads: Where files of a new model go.
    """

    def __init__(self, folder_for_uploads):
        self.models, self.folder_for_uploads = {}, folder_for_uploads
        self.private, self.gated, self.broken = set(), set(), set()
        self.sent = []

    def add(self, name, folder):
        self.models[name] = pathlib.Path(folder)

    def commit_of(self, name):
        """Return the commit of the main branch."""
        digest = hashlib.sha1(name.encode())
        for path in self.files_of(name):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def files_of(self, name):
        return sorted(path for path in self.models[name].rglob("*") if path.is_file())

    def refusal(self, name, revision, has_token):
        """Return the status and the error code of a request, or None."""
        if name in self.gated and not has_token:
            return 401, "GatedRepo"
        if name not in self.models or (name in self.private and not has_token):
            return 401, "RepoNotFound"
        if revision not in ("main", "v1", self.commit_of(name)):
            return 404, "RevisionNotFound"
        return None

    @contextlib.contextmanager
    def running(self):
        """Serve in a thread; yields the address."""
        handler = type("Handler", (_Handler,), {"hub": self})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: LocalHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *message):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_POST(self):
        """Take a repository and files, all of them as regular files of git."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "Authorization" not in self.headers:
            self._send(401, b"{}", {"X-Error-Message": "Invalid username or password."})
        elif path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self.hub.models.setdefault(name, self.hub.folder_for_uploads)
            self._send_json({"url": f"http://{self.headers['Host']}/{name}"})
        elif path == "/api/validate-yaml":
            self._send_json({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(body)["files"]
            kinds = {"uploadMode": "regular", "shouldIgnore": False}
            files = [{"path": file["path"], **kinds} for file in files]
            self._send_json({"files": files})
        else:
            name = _API.fullmatch(path)[1]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    file = self.hub.models[name] / line["value"]["path"]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(base64.b64decode(line["value"]["content"]))
            commit = self.hub.commit_of(name)
            address = f"http://{self.headers['Host']}/{name}/commit/{commit}"
            self._send_json({"commitUrl": address, "commitOid": commit})

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if match := _API.fullmatch(path):
            name, rest = match.groups()
            kind, _, revision = rest.partition("/")
            self._answer(name, revision or "main", lambda: self._listing(name, kind))
        elif match := _FILE.fullmatch(path):
            name, revision, file = match.groups()
            self._answer(name, revision, lambda: self._file(name, file))
        else:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})

    def _answer(self, name, revision, send):
        refusal = self.hub.refusal(name, revision, "Authorization" in self.headers)
        if refusal is None:
            send()
            return
        status, code = refusal
        self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def _listing(self, name, kind):
        folder, files = self.hub.models[name], self.hub.files_of(name)
        names = [path.relative_to(folder).as_posix() for path in files]
        if kind == "tree":
            content = [
                {
                    "type": "file",
                    "path": file,
                    "size": path.stat().st_size,
                    "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
                }
                for file, path in zip(names, files, strict=True)
            ]
        else:
            content = {
                "id": name,
                "sha": self.hub.commit_of(name),
                "siblings": [{"rfilename": file} for file in names],
            }
        self._send_json(content)

    def _send_json(self, content):
        body = json.dumps(content).encode()
        self._send(200, body, {"Content-Type": "application/json"})

    def _file(self, name, file):
        path = self.hub.models[name] / file
        commit = {"X-Repo-Commit": self.hub.commit_of(name)}
        if not path.is_file():
            self._send(404, b"", {**commit, "X-Error-Code": "EntryNotFound"})
            return
        body = path.read_bytes()
        etag = {"ETag": f'"{hashlib.sha1(body).hexdigest()}"'}
        if self.command == "GET":
            self.hub.sent.append(file)
        is_broken = self.command == "GET" and file in self.hub.broken
        self._send(200, body, {**commit, **etag}, is_broken=is_broken)

    def _send(self, status, body, headers, is_broken=False):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: len(body) // 2] if is_broken else body)
        if is_broken:
            self.close_connection = True
