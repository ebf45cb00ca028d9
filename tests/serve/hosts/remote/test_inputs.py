"""What a server of the Open Inference Protocol is sent of each kind of input, what it may send back beside the
prediction, and whose certificate is trusted."""

import json
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from threading import Thread

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi.responses import JSONResponse

from demur.serve.contract.inputs import TableRow, TextPair
from demur.uncertainty.readings import outages_in
from tests.serve.hosts.remote.conftest import configured, run, why

PREDICTION = {"name": "probabilities", "datatype": "FP64", "shape": [1, 2], "data": [0.25, 0.75]}
PICTURE = np.arange(12, dtype=np.uint8).reshape(3, 2, 2) * 20
IMAGE = {"kind": "image", "channels": 3, "height": 2, "width": 2}
PEOPLE = {"kind": "table", "columns": {"age": {"kind": "number", "missing": True}, "job": ["clerk", "nurse"]}}


def replying(server, *tensors):
    server.instead = lambda body: JSONResponse({"model_name": "cancer", "outputs": list(tensors)}) if body else None


def sent(server):
    (body,) = [body for body in server.asked if body]
    return [(one["name"], one["datatype"], one["shape"], np.ravel(one["data"]).tolist()) for one in body["inputs"]]


def test_pixels_are_sent_in_the_order_and_the_type_that_the_server_takes(server):
    replying(server, PREDICTION)
    run(configured(server.url, input=IMAGE, tensor={"datatype": "UINT8"}, layout="nhwc"), [PICTURE])
    assert sent(server) == [("input", "UINT8", [1, 2, 2, 3], np.moveaxis(PICTURE, 0, -1).ravel().tolist())]


def test_floating_pixels_are_between_0_and_1_and_may_be_flat(server):
    replying(server, PREDICTION)
    run(configured(server.url, input=IMAGE, tensor={"row_shape": [12]}), [PICTURE])
    ((name, datatype, shape, data),) = sent(server)
    assert (name, datatype, shape) == ("input", "FP32", [1, 12])
    assert np.allclose(data, PICTURE.ravel() / 255, rtol=1e-6)


def test_whole_numbers_are_sent_as_such_and_others_are_not_sent(server):
    replying(server, PREDICTION)
    model = configured(server.url, tensor={"datatype": "INT64"})
    run(model, [TableRow((1.0, -2.0, 3.0))])
    assert sent(server) == [("input", "INT64", [1, 3], [1, -2, 3])]
    server.asked.clear()
    assert "INT64 cannot hold; see host.tensor.datatype" in why(run(model, [TableRow((1.5, 2.0, 3.0))]))
    assert not [body for body in server.asked if body]


def test_rows_and_pairs_may_be_json_texts(server):
    replying(server, PREDICTION)
    run(configured(server.url, input=PEOPLE, tensor={"columns": "json"}), [TableRow((None, 'nu"rse'))])
    ((_, datatype, shape, (text,)),) = sent(server)
    assert (datatype, shape, json.loads(text)) == ("BYTES", [1], {"age": None, "job": 'nu"rse'})
    server.asked.clear()
    pair = TextPair(text="a", text_pair='"b')
    run(configured(server.url, input="text_pair", tensor={"columns": "json"}), [pair])
    ((*_, (text,)),) = sent(server)
    assert json.loads(text) == {"text": "a", "text_pair": '"b'}


def test_an_embedding_is_read_beside_the_prediction(server):
    embedding = {"name": "hidden", "datatype": "FP32", "shape": [1, 3], "data": [0.5, -1.0, 2.0]}
    replying(server, embedding, PREDICTION)
    settings = {"output": "probabilities", "embedding": "hidden", "embedding_size": 3}
    output = run(configured(server.url, **settings), [TableRow((1.0, 2.0, 3.0))], "embedding")
    assert np.allclose(output.probabilities, [[0.25, 0.75]])
    assert np.allclose(output.embedding, [[0.5, -1.0, 2.0]])
    replying(server, {**embedding, "shape": [1, 2], "data": [0.5, -1.0]}, PREDICTION)
    assert "hidden" in why(run(configured(server.url, **settings), [TableRow((1.0, 2.0, 3.0))], "embedding"))


class Greeter(BaseHTTPRequestHandler):
    """Answers each question with the same prediction."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        told = json.dumps({"predictions": [[0.25, 0.75]]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        pass


def certified(folder):
    """A certificate for this machine that it signed itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "models.internal")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    of_key = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(*of_key))
    return str(folder / "ca.pem"), str(folder / "key.pem")


@pytest.fixture
def secured(tmp_path):
    ca, key = certified(tmp_path)
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Greeter)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{http.server_address[1]}", ca
    http.shutdown()
    http.server_close()
    thread.join()


def test_a_server_is_trusted_by_its_certificate_and_by_nothing_else(secured):
    url, ca = secured
    rows = [TableRow((1.0, 2.0, 3.0))]
    trusted = run(configured(url, protocol="http", ca=ca), rows)
    assert np.allclose(trusted.probabilities, [[0.25, 0.75]])
    (outage,) = outages_in(run(configured(url, protocol="http"), rows))
    assert "certificate" in outage.why.lower()
