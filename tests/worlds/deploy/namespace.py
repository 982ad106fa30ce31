"""A namespace of Kubernetes in memory."""


class Namespace(dict):
    """Secrets as Kubernetes keeps them."""

    def __init__(self):
        self.written = []

    def read(self, name):
        return self.get(name)

    def create(self, name, data, kind):
        assert kind == ("kubernetes.io/tls" if name.endswith("-tls") else "Opaque")
        if name in self:
            return False
        self[name] = dict(data)
        return True

    def write(self, name, data):
        self.written.append(name)
        self[name] = {**self[name], **data}
