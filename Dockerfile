# Sori on a CPU. The models are part of the image: a container starts without a network.
#
#   docker build -t sori .
#   docker run -p 127.0.0.1:8000:8000 -e SORI_API_KEYS=choose-a-key sori
#
# The server listens on all addresses of the container, so it wants keys (SORI_API_KEYS=one,two). To
# let everybody in who can reach the port: docker run … sori sori serve --host 0.0.0.0 --allow-anonymous
FROM python:3.13-slim AS build

WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY audio audio
COPY pipeline pipeline
COPY realtime realtime
COPY bench bench
COPY web_demo web_demo
COPY configs configs
RUN python -m venv /opt/sori && /opt/sori/bin/pip install --no-cache-dir .
# A layer of its own, so that a look at the image shows what the models weigh.
ENV SORI_HOME=/opt/models
RUN /opt/sori/bin/sori models fetch && /opt/sori/bin/sori models verify

FROM python:3.13-slim

# ctranslate2 and onnxruntime need OpenMP; libopus0 is the system's Opus.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 libopus0 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 sori
COPY --from=build /opt/sori /opt/sori
COPY --from=build --chown=sori /opt/models /opt/models
ENV PATH=/opt/sori/bin:$PATH SORI_HOME=/opt/models PYTHONUNBUFFERED=1
USER sori
EXPOSE 8000
# /health says that the process lives; /ready, which an orchestrator should ask, that it can answer.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
CMD ["sori", "serve", "--host", "0.0.0.0"]
