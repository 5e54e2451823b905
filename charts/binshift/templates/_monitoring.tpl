{{- /* Whether something for Prometheus or Grafana is wanted: "true", or empty. Takes a list: the root, and the value (auto, true or
false). `auto` means: where the cluster knows the resources of the Prometheus operator. */ -}}
{{- define "binshift.wanted" -}}
{{- $root := index . 0 -}}
{{- $value := toString (index . 1) -}}
{{- if or (eq $value "true") (and (eq $value "auto") ($root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
true
{{- end -}}
{{- end }}

{{- /* Whether the operator's pod is annotated for Prometheus: "true", or empty. `auto` means: where there is no PodMonitor of it. */ -}}
{{- define "binshift.annotated" -}}
{{- $value := toString .Values.prometheusAnnotations -}}
{{- $monitored := include "binshift.wanted" (list . .Values.monitoring.podMonitors.enabled) -}}
{{- if or (eq $value "true") (and (eq $value "auto") (not $monitored)) -}}
true
{{- end -}}
{{- end }}

{{- define "binshift.monitoringLabels" -}}
{{ include "binshift.labels" . }}
{{- with .Values.monitoring.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* How often, and under which job, one target is scraped. Takes a list: the root, and the job that the rules know it by. */ -}}
{{- define "binshift.scrape" -}}
path: /metrics
interval: {{ (index . 0).Values.monitoring.podMonitors.interval }}
scrapeTimeout: {{ (index . 0).Values.monitoring.podMonitors.scrapeTimeout }}
relabelings:
  - {action: replace, targetLabel: job, replacement: {{ index . 1 }}}
{{- end }}
