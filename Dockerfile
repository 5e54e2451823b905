# Images from one file: `operator` runs the Kubernetes operator; `spark` runs a dataflow's driver, master and workers, and
# is what users' images start FROM. `quickstart` is both, with an example (docs/guides/quickstart.md).
#
#     scripts/s3-jars.sh build/s3-jars
#     docker build --target operator -t binshift-operator .
#     docker build --target spark -t binshift-spark .
#
# podman and buildah build it as well. What is pinned, how to pin the rest, and what was tried is in docs/building-images.md.
# Neither image has pip or a compiler; users add packages as runtime/examples/ shows. The first line above fetches what Spark
# needs for checkpoints on S3.
#
# BASE_IMAGE      a Debian with Python 3.11 to 3.13 and venv, and with JRE_PACKAGE among its packages; a digest pins it
# JRE_PACKAGE     Java; NAME=VERSION pins it
# PIP_INDEX_URL   a package index other than pip's own
# CLASS_ARCHIVE   empty leaves the archive of Spark's classes out, which cannot be made in an emulator
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm

# ------------------------------------------------------------------------------------------------- what the images share
FROM ${BASE_IMAGE} AS slim
# tini reaps what a container's first process leaves behind, and hands signals on.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
    && groupadd --gid 10001 binshift \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/binshift --shell /usr/sbin/nologin binshift \
    && install -d -o 10001 -g 0 -m 0775 /app /var/lib/binshift
# No build tools; and the standard library compiled now, as nothing can be written at run time.
RUN find /usr -depth \( -path '*-packages/pip*' -o -path '*-packages/setuptools*' -o -path '*-packages/wheel*' \
         -o -path '*-packages/pkg_resources*' -o -path '*-packages/_distutils_hack*' \
         -o -path '*-packages/distutils-precedence.pth' -o -path '*/ensurepip*' \) -delete \
    && rm -f /usr/bin/pip* /usr/local/bin/pip* /usr/share/python-wheels/* \
    && python3 -m compileall -q "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" -x '/(test|tests|lib2to3)/'
ENV PATH=/opt/binshift/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
ENTRYPOINT ["/usr/bin/tini", "--"]

# ---------------------------------------------------------------------------------- Python packages, built out of sight
FROM ${BASE_IMAGE} AS build
ARG PIP_INDEX_URL=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_DEFAULT_TIMEOUT=180
WORKDIR /src
COPY requirements/build.txt requirements/
# /opt/build builds; /opt/binshift, which has no pip, is what the images get.
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install -q --require-hashes --no-deps -r requirements/build.txt \
    && python3 -m venv --without-pip /opt/binshift

# binshift alone; laid over the packages it needs, so that a change of it makes one small layer.
FROM build AS own
COPY pyproject.toml README.md LICENSE ./
COPY operator/binshift_operator operator/binshift_operator
COPY runtime/binshift runtime/binshift
RUN /opt/build/bin/pip wheel -q --no-deps --no-build-isolation --no-index -w /wheels . \
    && /opt/build/bin/pip --python /opt/binshift/bin/python install -q --no-deps --no-index /wheels/*.whl

FROM build AS operator-packages
# Only BuildKit hands arguments on from stage to stage.
ARG PIP_INDEX_URL=
COPY requirements/operator.txt requirements/
RUN /opt/build/bin/pip --python /opt/binshift/bin/python install -q --require-hashes --no-deps --only-binary :all: \
        -r requirements/operator.txt

FROM build AS spark-packages
ARG PIP_INDEX_URL=
COPY requirements/runtime.txt requirements/
# Spark is published as source only, so wheels are built first, with the pinned tools of /opt/build.
RUN /opt/build/bin/pip wheel -q --require-hashes --no-deps --no-build-isolation -w /third -r requirements/runtime.txt \
    && /opt/build/bin/pip --python /opt/binshift/bin/python install -q --no-deps --no-index /third/*.whl \
    && rm -rf /third

# ------------------------------------------------------------------------------------------------------------ the images
FROM slim AS operator
LABEL org.opencontainers.image.title="binshift operator" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=operator-packages /opt/binshift /opt/binshift
COPY --from=own /opt/binshift /opt/binshift
USER 10001:10001
CMD ["python", "-m", "binshift_operator"]

FROM slim AS spark
ARG JRE_PACKAGE=openjdk-17-jre-headless
LABEL org.opencontainers.image.title="binshift on Spark" org.opencontainers.image.licenses="Apache-2.0"
# The package of Java wants a folder that slim images lack. The other one gives a name to a user that a cluster draws (binshift.hosting.pod.user).
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libnss-wrapper ${JRE_PACKAGE} \
    && rm -rf /usr/share/man/man1 /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
    && ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java
ENV JAVA_HOME=/opt/java \
    SPARK_DIST_CLASSPATH=/opt/spark-jars/*
COPY build/s3-jars /opt/spark-jars
COPY --from=spark-packages /opt/binshift /opt/binshift
# Spark's classes in one file, which halves the start of its processes; once for all versions of binshift on one Spark.
COPY runtime/binshift/cds.py /tmp/cds/
COPY runtime/binshift/spark/training.py /tmp/cds/spark/
ARG CLASS_ARCHIVE=yes
RUN if [ -n "$CLASS_ARCHIVE" ]; then python /tmp/cds/cds.py; fi && rm -rf /tmp/*
COPY --from=own /opt/binshift /opt/binshift
# And binshift's own few classes, which each driver would compile otherwise.
RUN if [ -n "$CLASS_ARCHIVE" ]; then python -m binshift.spark.session.java_classes; fi && rm -rf /tmp/*
USER 10001:10001
CMD ["binshift", "--help"]

# For a first try: the operator's packages and an example, laid over the spark image.
FROM spark AS quickstart
COPY --from=operator-packages /opt/binshift /opt/binshift
COPY runtime/examples/minimal/minimal.py /app/
